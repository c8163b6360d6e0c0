"""How fast the data pipeline is: `python -m bench.pipeline`, or `make bench-pipeline`."""
