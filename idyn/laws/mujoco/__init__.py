"""The law `mujoco`: MuJoCo's soft contact with the joint motion prescribed."""
