"""The journal into the lake: every row once in bronze, typed tables in silver."""
