"""State estimation: pose and velocity of a free base, and the feet that touch, from an IMU, joint sensors and torques."""
