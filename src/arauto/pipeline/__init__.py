"""The data pipeline: from the journal to answers, on Spark. Runs beside the node, never in it."""
