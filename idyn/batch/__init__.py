"""Batches: many predictions in one call."""
