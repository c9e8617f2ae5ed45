"""Stages of an outage, on both sides.

    time since the last             robot's side                                      server,
    answered state        stage     (`robot.failsafe`)                                when the next state arrives
    less than hold        FOLLOW    last torque and joint feedback, along `ref`       answers
    hold to latch         REST      torque fades, joint feedback to a rest posture    answers; `watchdog.state` is `hold`
    latch and more        STOPPED   as REST until `reset`; answers are ignored        refuses states until `reset`

The robot's side damps instead before the first answer, after a fault or an emergency stop, and without gains in the answer.

The robot's side counts from the last answered state. The server counts the time without states by both clocks
(`server.sessions.outage`). A pause of the server's process therefore stops the robot, but does not end the session.

Below `latch` the next state is answered as usual, and its torque is applied without a transition. All laws start from their
last solution (warm start). The time of the reference continues; it advances by at most five periods over an outage. `reset`
deletes the warm starts and resets the time of the reference: the gait begins with its first step.
"""

from enum import IntEnum


class Stage(IntEnum):
    """Stages of an outage, in temporal order."""

    FOLLOW = 0
    REST = 1
    STOPPED = 2


def stage(outage_ns: int, hold_ns: int, latch_ns: int) -> Stage:
    """Return the stage of an outage of this length. All times in [ns]."""
    if outage_ns >= latch_ns:
        return Stage.STOPPED
    return Stage.FOLLOW if outage_ns < hold_ns else Stage.REST
