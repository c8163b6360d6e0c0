"""Mining: what goes together in messages, and what follows what; with numbers, versions and differences."""
