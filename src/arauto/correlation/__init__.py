"""Correlation rules: their language, what they compile to, and the matcher. Pure: no Spark, files or clock."""
