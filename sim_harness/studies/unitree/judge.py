"""Figures of a run in Unitree's simulator: the way walked, and the server's estimates against the simulator's trace."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.spatial.transform import Rotation

from idyn.types import Array
from sim_harness.run.log_blocks import Exchange
from sim_harness.studies.unitree.trace import Truth, UnitreeModel
from transport.protocol.messages.torque import TorqueMessage
from transport.unitree.script import Step

TROT_S = 0.2
"""A robot trots while a foot has been in the air within this time [s]."""

STEADY_S, LATE_S = 0.03, 0.06
"""A change of contact counts if the foot was steady for this time before and after [s]; largest delay looked for [s]."""


class Estimates(NamedTuple):
    """The server's estimates of the states that match a step of the simulator.

    rows: of the trace (n); t: robot's time [s] (n)
    position [m] (n, 3), attitude (n), velocity in the axes of the base [m/s] (n, 3), touching (n, feet)
    """

    rows: Array
    t: Array
    position: Array
    attitude: Rotation
    velocity: Array
    touching: Array


class Walk(NamedTuple):
    """What a robot did in a step of a script: displacement forward and to the left [m], turned [rad]."""

    step: Step
    forward: float
    left: float
    turned: float

    @property
    def asked(self) -> tuple[float, ...]:
        """Commanded velocity: forward, left [m/s], turn [rad/s]."""
        return self.step.velocity or (0.0, 0.0, 0.0)


class EstimateFigures(NamedTuple):
    """Errors of the estimates.

    velocity: rms by axis [m/s] (3); tilt: largest [rad]; height: mean [m]; drift: of the way at the end, as a share of the way
    right: share of feet right while trotting; touchdown, liftoff: median and 95 % quantile of the delay [s] (2)
    """

    velocity: Array
    tilt: float
    height: float
    drift: float
    right: float
    touchdown: Array
    liftoff: Array


class EstimateFinder:
    """Finds the states whose joint angles are those of a step of the simulator, to the bit."""

    def __init__(self, joints: Array) -> None:
        """joints: angles in the trace, in the order of the states [rad] (steps, na)"""
        self._steps = {row.tobytes(): k for k, row in enumerate(joints.astype(np.float32))}
        self._rows: list[int] = []
        self._times: list[float] = []
        self._numbers: list[list[float]] = []  # position, quaternion, linear velocity, touching feet

    def add(self, exchanges: Sequence[Exchange]) -> None:
        """Add states and replies."""
        for state, reply, _ in exchanges:
            angles = np.frombuffer(state.q) if isinstance(state.q, bytes) else np.array(state.q)
            row = self._steps.get(angles.astype(np.float32).tobytes())
            if row is not None and isinstance(reply, TorqueMessage) and reply.estimate is not None:
                e = reply.estimate
                self._rows.append(row)
                self._times.append(1e-9 * state.t_robot)
                self._numbers.append([*e.position, *e.quat, *e.vel[:3], *(float(foot.touches) for foot in e.feet)])

    def found(self) -> Estimates:
        """Return the estimates of these states."""
        numbers = np.array(self._numbers)
        return Estimates(
            rows=np.array(self._rows),
            t=np.array(self._times),
            position=numbers[:, :3],
            attitude=Rotation.from_quat(numbers[:, 3:7]),
            velocity=numbers[:, 7:10],
            touching=numbers[:, 10:] > 0.0,
        )


def walk_of(truth: Truth, t: Array, steps: Sequence[Step]) -> list[Walk]:
    """Return what the robot did in each step. t: time since the first step began, of each row of the trace [s]"""
    x, y = truth.q[:, 0], truth.q[:, 1]
    yaw = np.unwrap(truth.attitude.as_euler("ZYX")[:, 0])
    found, begin = [], 0.0
    for step in steps:
        inside = np.flatnonzero((t >= begin) & (t < begin + step.seconds))
        begin += step.seconds
        if len(inside):
            a, b = inside[0], inside[-1]
            way, (c, s) = (x[b] - x[a], y[b] - y[a]), (np.cos(yaw[a]), np.sin(yaw[a]))
            found.append(Walk(step, c * way[0] + s * way[1], c * way[1] - s * way[0], yaw[b] - yaw[a]))
    return found


def judge_estimates(found: Estimates, truth: Truth, model: UnitreeModel, feet: tuple[str, ...], way: float) -> EstimateFigures:
    """Return the errors of estimates.

    truth: its rows are those of the estimates; feet: empty: contacts are not judged; way: length of the way [m]
    """
    true = truth.attitude
    velocity = found.velocity - true.inv().apply(truth.v[:, :3])
    up = np.einsum("ni,ni->n", true.as_matrix()[:, 2], found.attitude.as_matrix()[:, 2])
    turn = (true[0] * found.attitude[0].inv()).as_euler("ZYX")[0]
    moved = Rotation.from_euler("Z", turn).apply(found.position - found.position[0]) - (truth.q[:, :3] - truth.q[0, :3])
    touching = model.touching(truth, feet)
    rate = 1.0 / float(np.median(np.diff(truth.t)))
    trots = maximum_filter1d((~touching).any(axis=1).astype(int), 2 * round(TROT_S * rate) + 1) > 0
    felt = found.touching[:, : len(feet)]
    right = felt == touching
    return EstimateFigures(
        velocity=np.sqrt((velocity**2).mean(axis=0)),
        tilt=float(np.arccos(np.clip(up, -1.0, 1.0)).max()),
        height=float((found.position[:, 2] - truth.q[:, 2]).mean()),
        drift=float(np.linalg.norm(moved[-1, :2])) / way if way > 0.0 else np.nan,
        right=float(right[trots].mean()) if trots.any() else np.nan,
        touchdown=_delays(truth.t, touching, felt),
        liftoff=_delays(truth.t, ~touching, ~felt),
    )


def _delays(t: Array, true: Array, found: Array) -> Array:
    """Return median and 95 % quantile of the delay of rising edges [s] (2). true, found: flags (n, feet)"""
    delays = []
    for foot in range(true.shape[1]):
        edges, late = (np.flatnonzero(np.diff(flags[:, foot].astype(int)) > 0) + 1 for flags in (true, found))
        for edge in edges:
            before = (t >= t[edge] - STEADY_S) & (t < t[edge])
            after = (t >= t[edge]) & (t < t[edge] + STEADY_S)
            near = t[late] - t[edge]
            near = near[np.abs(near) < LATE_S]
            if len(near) and not true[before, foot].any() and true[after, foot].all():
                delays.append(near[np.abs(near).argmin()])
    return np.quantile(delays, [0.5, 0.95]) if delays else np.full(2, np.nan)
