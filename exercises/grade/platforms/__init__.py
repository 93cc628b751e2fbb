"""What learning platforms give out and take in: their tables, their downloads, their names for files."""
