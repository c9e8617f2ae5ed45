"""What a person steers a robot with."""
