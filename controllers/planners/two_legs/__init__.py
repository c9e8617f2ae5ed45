"""Gait of two legs by the divergent component of motion; to read the code begin at `controllers.planners.two_legs.walker`."""
