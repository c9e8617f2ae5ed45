"""MuJoCo as the simulated world: its dynamics, its contacts, its integration."""
