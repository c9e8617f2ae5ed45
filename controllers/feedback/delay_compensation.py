"""Extrapolation of the state over a known actuation delay.

Between a measurement and the time when the torque computed from it acts, the robot moves under earlier torques. The measured
state is extrapolated with the accelerations a_k that were predicted for these torques; k are the ticks whose torques had not
acted when the state was measured:

    v ← v + a_k dt,     q ← q ⊕ v dt
Each tick starts from a new measurement, so prediction errors accumulate over the delay only.
"""

from collections import deque

from idyn.model.robot import Robot
from idyn.types import Array, Kinematics, State

MAX_TICKS = 20
"""Longest extrapolation [ticks]. A longer one would be less accurate than the measurement itself."""


class DelayCompensation:
    """Extrapolates states. Stores the velocity changes predicted in the last ticks."""

    def __init__(self, robot: Robot, period: float) -> None:
        """period: control period [s]"""
        self._robot, self._period = robot, period
        self._predicted: deque[tuple[Array, Array, float]] = deque(maxlen=MAX_TICKS)

    def reset(self) -> None:
        """Forget all predictions."""
        self._predicted.clear()

    def extrapolate(self, state: State | Kinematics, delay: float) -> State | Kinematics:
        """Return the state expected after `delay` [s], or after as many ticks as there are predictions for."""
        if delay == 0.0:
            return state
        ticks = min(round(delay / self._period), len(self._predicted))
        q, v = state.q, state.v
        for k in range(len(self._predicted) - ticks, len(self._predicted)):
            before, after, dt = self._predicted[k]
            v = v + self._period * ((after - before) / dt)
            q = self._robot.integrate(q, self._period * v)
        return State(q=q, v=v) if ticks else state

    def record(self, before: Array, after: Array, dt: float) -> None:
        """Record the prediction of a tick: the velocities (nv) before and after a period dt [s] under its torque."""
        self._predicted.append((before.copy(), after, dt))
