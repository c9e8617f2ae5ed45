"""MuJoCo as a simulated world."""
