"""The SAP solver: compliant contact as a convex program."""
