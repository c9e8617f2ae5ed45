"""Stages of a dropout, on both sides.

    since the last answered state   stage     the robot's side (`robot.failsafe`)           the server, when it is asked again
    less than hold                  FOLLOW    the last torque and its loop, along `ref`     answers
    hold to latch                   REST      the torque fades, the loop keeps a posture    answers; `watchdog.state` is `hold`
    latch and more                  STOPPED   the same until `reset`, whatever comes        refuses states until `reset`

    before the first answer, after a fault or an emergency stop, without gains to follow with: the robot's own side damps

The robot's side counts from the state that was answered last; the server counts the time without states by both clocks
(`server.sessions.outage`). So a pause of the server's process stops the robot, but does not end the session.

Below `latch` the next state is answered for what it is, and the first torque applied as it comes. All laws keep their last
solution as a warm start, and the reference's time, which advances by five periods at most over a dropout. After `reset`
everything begins anew, with the first step of the gait.
"""

from enum import IntEnum


class Stage(IntEnum):
    """In the order in which they come."""

    FOLLOW = 0
    REST = 1
    STOPPED = 2


def stage(outage_ns: int, hold_ns: int, latch_ns: int) -> Stage:
    """The stage after so long without an answer [ns]."""
    if outage_ns >= latch_ns:
        return Stage.STOPPED
    return Stage.FOLLOW if outage_ns < hold_ns else Stage.REST
