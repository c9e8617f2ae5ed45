"""Forward contact engines behind one protocol. They share solvers with the contact laws, but no law code."""

NAMES = ("lcp", "penalty", "dissipation", "no-slip", "viscous", "sap", "first-order", "newton", "mujoco")
"""Names of the kinds of `sim_harness.world.worlds.AnyEngine`, which is slow to load: help and completion use them."""
