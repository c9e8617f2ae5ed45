"""The robot model: everything that asks Pinocchio."""
