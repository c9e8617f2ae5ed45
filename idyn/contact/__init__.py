"""What can be touched, and how it yields: contact search, terrains, ground models."""
