"""Who sent what, when and from where, to whom it went, and what was refused: questions to the lake."""
