"""The report: one page with charts about a period, in a file that needs nothing else."""
