"""Derivatives of predictions."""
