"""A Go2 in Unitree's own simulator, judged by the simulator's trace."""
