"""One module per change of the schema, never edited once released."""
