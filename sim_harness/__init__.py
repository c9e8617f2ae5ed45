"""A simulated robot side of the protocol: world, contact engines, experiments and their reports."""
