"""Traces of runs, and figures computed from them."""
