"""The simulated robot's side of the wire: sensors, actuators, link, pushes."""
