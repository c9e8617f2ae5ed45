"""Convex contact laws: program, bases and pivoting."""
