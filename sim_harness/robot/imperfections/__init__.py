"""What a simulated robot lacks of an ideal one: sensors, drives, link and bodies, and a ground that is not as believed."""
