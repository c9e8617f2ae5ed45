"""Pages, tables and pictures."""
