"""Export of logs into the formats of other tools: Foxglove, rerun, Parquet. `transport.log.export` has the raw messages."""
