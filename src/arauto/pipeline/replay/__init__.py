"""Publishes the past again: in order, at a chosen speed, resumable, and never at the cost of live traffic."""
