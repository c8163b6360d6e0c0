"""Publishes rows of any Spark query to channels, each once."""
