"""What watches a tick: safety limits and the comparison of predictions with measurements."""
