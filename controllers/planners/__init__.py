"""Planners: what the feet of a walking robot are to do, and when."""
