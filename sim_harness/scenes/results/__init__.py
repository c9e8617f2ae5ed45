"""What is recorded and measured of a scene, and what is known of it."""
