"""Uneven ground under a gait: its height at each foothold and the plane through all footholds.

The heights are those of a known terrain, or, in older logs, those at which the feet touched last. The ground under a foot in
the air is then that of the plane through the last footholds. Today's gaits notice steps by `controllers.planners.slope.watch`.
"""

import numpy as np

from controllers.contact.footing import heights_at, safe_shifts
from controllers.planners.plan import Plan
from controllers.planners.slope import STEEPEST
from controllers.planners.steps import EARLY
from controllers.robot.attitude import yaw
from controllers.robot.kinematics import contact_places
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array

LOOKS = 0.5
"""Share of the swing time, before its end, until which a foothold moves away from edges. Later a foot keeps its way."""


class Footholds:
    """Heights of the ground at the footholds of a plan; its `slope` gets them, and height and gradient of their plane."""

    def __init__(self, robot: Robot, plan: Plan) -> None:
        self._robot, self._plan, self._unseen = robot, plan, True
        self._places, self._heights, self._level = np.zeros((len(plan.hips), 2)), np.zeros(len(plan.hips)), 0.0

    def reset(self) -> None:
        """Forget the footholds."""
        self._unseen = True

    def look(self, terrain: Terrain, q: Array, t: float) -> None:
        """Find safe footholds of the feet in the air on a known terrain, and the plane through all footholds.

        q: configuration; t: time [s]
        """
        plan, slope = self._plan, self._plan.slope
        places, swings, R = plan.places(t), plan.swinging, _turn(plan, q)
        places[swings] = slope.goal[swings] + slope.shift[swings]
        looks = swings & (plan.end - t > LOOKS * plan.swing_time)
        if looks.any():
            wanted = (slope.goal[looks] - plan.pose[:2]) @ R.T + q[:2]
            slope.shift[looks] = safe_shifts(terrain, wanted, slope.shift[looks] @ R.T) @ R
            places[looks] = slope.goal[looks] + slope.shift[looks]
        offsets = (places - plan.pose[:2]) @ R.T  # from the base, world axes
        updates = swings | self._unseen
        self._unseen = False
        if updates.any():
            slope.heights[updates] = heights_at(terrain, offsets[updates] + q[:2])
        height, gradient = plane(offsets, slope.heights)
        slope.put(below=height)
        slope.target[:] = gradient

    def feel(self, q: Array, t: float, touches: Array) -> None:
        """Take the heights of the feet that touch, and the plane through the last places where feet touched.

        q: configuration; t: time [s]; touches: which feet touch the ground (n)
        """
        plan, slope, feet = self._plan, self._plan.slope, contact_places(self._robot, q)
        if not np.isfinite(feet).all():  # an extrapolated state may overflow; the last footholds stay
            return
        if self._unseen:
            self._unseen, self._level = False, float(feet[:, 2].mean())
            self._places[:], self._heights[:] = feet[:, :2], feet[:, 2] - self._level
        stands = touches & (~plan.swinging | (plan.end - t < EARLY * plan.swing_time))
        self._places[stands], self._heights[stands] = feet[stands, :2], feet[stands, 2] - self._level
        height, gradient = plane(self._places - q[:2], self._heights)
        slope.put(below=height)
        slope.target[:] = np.clip(gradient, -STEEPEST, STEEPEST)
        slope.heights[stands] = self._heights[stands]
        lands = ~stands & (plan.swinging | plan.seeking)
        goal = (slope.goal[lands] - plan.pose[:2]) @ _turn(plan, q).T
        slope.heights[lands] = height + goal @ gradient


def plane(places: Array, heights: Array) -> tuple[float, Array]:
    """Return height at the origin [m] and gradient (2) of the plane that fits heights [m] (n) at places [m] (n, 2)."""
    fit = np.linalg.lstsq(np.column_stack([np.ones(len(places)), places]), heights, rcond=None)[0]
    return float(fit[0]), fit[1:]


def _turn(plan: Plan, q: Array) -> Array:
    """Return the rotation in the plane from the frame of the plan to the world (2, 2)."""
    turn = yaw(q[3:7]) - plan.pose[2]
    c, s = np.cos(turn), np.sin(turn)
    return np.array([[c, -s], [s, c]])
