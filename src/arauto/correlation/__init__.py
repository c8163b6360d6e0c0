"""Correlation rules: their language, what they compile to, and the matcher. No Spark, no files, no clock."""
