"""Gait of two legs by the divergent component of motion: footsteps, reference of the centre of mass, tasks.

To read the code begin at `controllers.planners.two_legs.walker`.
"""
