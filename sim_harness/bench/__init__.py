"""Benchmarks: run times of contact laws, batches and the server."""
