"""Gait of four or more feet by model-predictive control of a single rigid body, for a planner beside the control loop.

To read the code begin at `controllers.planners.mpc.planner`.
"""
