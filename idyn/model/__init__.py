"""Robot model: URDF, joints, contact places, closures, and Pinocchio's dynamics terms."""
