"""What the SQL adapters share: rows, statements, the group commit and the stores built on them."""
