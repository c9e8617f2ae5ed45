"""What becomes of a robot while no torque comes: the table of both sides, in one place.

    since the last answered state   stage     the robot's side (`robot.failsafe`)           the server, when it is asked again
    less than hold                  FOLLOW    the last torque and its loop, along `ref`     answers
    hold to latch                   REST      the torque fades, the loop keeps a posture    answers; `watchdog.state` is `hold`
    latch and more                  STOPPED   the same until `reset`, whatever comes        refuses states until `reset`

    before the first answer, after a fault or an emergency stop, without gains to follow with: the robot's own side damps

Each side has its own clock and its own word: the robot's counts from the state that was answered last, the server's is the
silence that both clocks have seen (`server.sessions.silence`), so that a pause of its process stops the robot and not the
session.

Asked again below `latch`, every law answers for the state as it is then, and the first torque is applied as it comes. What is
remembered is the same for all laws: the last solution as a guess, tried and certified anew, and the reference's time. That has
gone on while states came, and by five periods at most while they did not: who could not ask for 50 ms walks on from where he
would have been after 5. After `reset` everything begins anew, from the first step of the gait.
"""

from enum import IntEnum


class Stage(IntEnum):
    """In the order in which they come."""

    FOLLOW = 0
    REST = 1
    STOPPED = 2


def stage(silence_ns: int, hold_ns: int, latch_ns: int) -> Stage:
    """Where one stands after so long [ns]."""
    if silence_ns >= latch_ns:
        return Stage.STOPPED
    return Stage.FOLLOW if silence_ns < hold_ns else Stage.REST
