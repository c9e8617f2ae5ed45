"""Fleets of logs: many logs are replayed in parallel; their results are Parquet files."""
