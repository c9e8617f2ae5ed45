"""When a robot that lay at first had got up."""

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import Trace

STANDS_FOR = 1.0
"""Time for which a robot must stand at the end to have got up [s]."""


def risen(trace: Trace, robot: Robot, terrain: Terrain, stance: Array) -> float:
    """Return the time after which the robot stood to the end, upright and with a reference at rest [s]; NaN without an end that
    lasts `STANDS_FOR`.

    stance: configuration in which it stands (nq)
    """
    moves = Posture(robot, terrain, stance).fallen(trace.q) | (trace.v_ref != 0.0).any(axis=1)
    first = int(np.flatnonzero(moves)[-1]) + 1 if moves.any() else 0
    since = trace.t[min(first, len(trace) - 1)] - trace.t[0]
    return float(since) if trace.t[-1] - trace.t[0] - since >= STANDS_FOR else float("nan")
