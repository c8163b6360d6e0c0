"""Correlation rules on Spark: one streaming query for all of them, and the same over history."""
