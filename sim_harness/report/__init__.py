"""Reports: HTML pages, tables and pictures."""
