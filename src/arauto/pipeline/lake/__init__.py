"""Tables as Parquet files and a log of commits that says which files count."""
