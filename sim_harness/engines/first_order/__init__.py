"""The first-order contact model."""
