"""Correlation rules on Spark: two streaming queries for all of them, and the same over history."""
