"""`format("arauto")`: the journal for Spark, as a batch and as a stream."""
