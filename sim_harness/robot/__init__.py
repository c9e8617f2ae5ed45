"""The simulated robot's side of the protocol: sensors, actuators, link, pushes."""
