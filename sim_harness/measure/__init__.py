"""Traces of a run, and what is measured from them."""
