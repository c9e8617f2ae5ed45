"""What runs beside the robot: the client, and what is applied while no answer comes."""
