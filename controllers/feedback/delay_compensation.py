"""Prediction of the state over a known delay: torques are computed for the robot that will get them.

Between a measurement and the torque that is computed from it the robot moves on under torques that are known already. What it
does meanwhile was predicted when those were computed: their accelerations carry the measured state on,

    v ← v + a_k dt,     q ← q ⊕ v dt          for the ticks k that are under way
Errors of these predictions last as long as the delay, since every tick begins at a measurement.
"""

from collections import deque

from idyn.model.robot import Robot
from idyn.types import Array, Kinematics, State

LONGEST = 20
"""Ticks that are looked ahead at the most: beyond, predictions are worth less than the measurement."""


class DelayCompensation:
    """Carries states on; owns the motion that was predicted last."""

    def __init__(self, robot: Robot, period: float) -> None:
        """period: of the ticks [s]"""
        self._robot, self._period = robot, period
        self._predicted: deque[tuple[Array, Array, float]] = deque(maxlen=LONGEST)

    def reset(self) -> None:
        """Nothing is under way."""
        self._predicted.clear()

    def ahead(self, state: State | Kinematics, delay: float) -> State | Kinematics:
        """The state that will be when `delay` [s] have gone by; as far as there are predictions."""
        if delay == 0.0:
            return state
        ticks = min(round(delay / self._period), len(self._predicted))
        q, v = state.q, state.v
        for k in range(len(self._predicted) - ticks, len(self._predicted)):
            before, after, dt = self._predicted[k]
            v = v + self._period * ((after - before) / dt)
            q = self._robot.integrate(q, self._period * v)
        return State(q=q, v=v) if ticks else state

    def note(self, before: Array, after: Array, dt: float) -> None:
        """The velocities before and after dt [s] of what was predicted for the torque of this tick (nv). They are kept."""
        self._predicted.append((before, after, dt))
