"""Fleets of logs: many logs are cut into windows and replayed in parallel; their results are Parquet files."""
