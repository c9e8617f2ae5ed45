"""The SAP solver: yielding contact as a convex program."""
