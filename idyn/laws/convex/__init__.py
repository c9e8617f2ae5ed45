"""The convex contact models: their program, bases and pivoting."""
