"""Many predictions in one call."""
