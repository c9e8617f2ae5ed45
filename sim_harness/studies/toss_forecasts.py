"""The tossed block: its scale and centre of mass from free flights, and forecasts of its tosses from one measured state.

Velocities are those of the centre of mass along world axes and of the rotation about body axes: ν = (v, ω). With the corner r
from the centre of mass, in body axes,

    J = (1, −R [r]×)        M = diag(m 1, I)        h = (m g ẑ, ω × I ω)
In flight the centre of mass moves on a parabola. The geometric centre at time t of a toss is

    x(t) = a + b t − ½ g t² ẑ − R(t) c
with a and b of each toss and gravity g and centre c common to all: linear least squares. Gravity other than 9.81 m/s² is the
scale of the measured lengths.

A step of an engine is that of `EngineWorld`: the engine computes ν⁺ from the contacts at the beginning, then x⁺ = x + dt v⁺
and R⁺ = R exp(dt ω⁺). Without a corner near the floor no engine is called: the motion is free.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from controllers.config.loading import NonNegative, Positive, Settings
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem
from sim_harness.studies.measured_tosses import CORNERS, EDGE, MASS, RATE, Toss


class Block(Record, frozen=True):
    """A cube with its centre of mass apart from its geometric centre."""

    half: float  # half of an edge [m]; mass [kg]
    mass: float
    inertia: float  # about the centre of mass, the same about all axes [kg·m²]
    centre: Array  # centre of mass from the geometric centre, body axes [m] (3); gravity [m/s²]
    gravity: float

    @property
    def corners(self) -> Array:
        """Return the corners from the centre of mass, body axes [m] (8, 3)."""
        return self.half * CORNERS - self.centre


class Motion(Record, frozen=True):
    """State of a block."""

    position: Array  # of the centre of mass [m] (3)
    rotation: Array  # body axes in the world (3, 3)
    velocity: Array  # of the centre of mass [m/s] (3), then angular velocity in body axes [rad/s] (3); (6)


def contact_terms(position: Array, rotation: Array, corners: Array, margin: float) -> tuple[Array, Array]:
    """Return J (3n, 6), rows x, y, z of each corner lower than `margin` [m], and their heights [m] (n)."""
    n = 0
    heights = np.empty(len(corners))
    for i in range(len(corners)):
        heights[i] = position[2]
        for j in range(3):
            heights[i] += rotation[2, j] * corners[i, j]
        n += heights[i] < margin
    J, gaps = np.zeros((3 * n, 6)), np.empty(n)
    k = 0
    for i in range(len(corners)):
        if heights[i] >= margin:
            continue
        x, y, z = corners[i, 0], corners[i, 1], corners[i, 2]
        for a in range(3):
            J[3 * k + a, a] = 1.0
            J[3 * k + a, 3] = rotation[a, 2] * y - rotation[a, 1] * z
            J[3 * k + a, 4] = rotation[a, 0] * z - rotation[a, 2] * x
            J[3 * k + a, 5] = rotation[a, 1] * x - rotation[a, 0] * y
        gaps[k] = heights[i]
        k += 1
    return J, gaps


def turned(rotation: Array, angles: Array) -> Array:
    """Return R exp([a]×) for a rotation vector a in body axes [rad] (3)."""
    x, y, z = angles[0], angles[1], angles[2]
    square = x * x + y * y + z * z
    angle = np.sqrt(square)
    first = np.sin(angle) / angle if angle > 1e-6 else 1.0 - square / 6.0
    second = (1.0 - np.cos(angle)) / square if angle > 1e-6 else 0.5 - square / 24.0
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return rotation @ (np.eye(3) + first * K + second * (K @ K))


STANDARD_GRAVITY, ABOVE, FEWEST = 9.81, 0.003, 8
"""[m/s²]; a block flies while its lowest corner, for the nominal edge, is higher [m]; shortest flight in use [samples]."""


class Flight(Settings, frozen=True):
    """What the flights say. Every value is in measured lengths."""

    gravity: Positive  # [m/s²]
    centre: tuple[float, float, float]  # centre of mass from the geometric centre, body axes [m]
    # gravity_error, centre_error: standard errors, by the scatter between tosses
    gravity_error: NonNegative = 0.0
    centre_error: tuple[float, float, float] = (0.0, 0.0, 0.0)
    residual: NonNegative = 0.0  # root mean square [m]
    tosses: int = 0  # number of flights

    @property
    def scale(self) -> float:
        """Return measured lengths divided by metres."""
        return self.gravity / STANDARD_GRAVITY

    def block(self, inertia: float) -> Block:
        """Return the block in measured lengths. inertia: moment of inertia in units of m h²"""
        half = 0.5 * EDGE * self.scale
        moment = inertia * MASS * half**2
        return Block(half=half, mass=MASS, inertia=moment, centre=np.array(self.centre), gravity=self.gravity)


def flight_samples(toss: Toss) -> int:
    """Return the number of samples before the block comes near the floor."""
    lowest = toss.position[:, 2] - 0.5 * EDGE * np.abs(toss.rotation[:, 2]).sum(axis=1)
    low = np.flatnonzero(lowest <= ABOVE)
    return int(low[0]) if len(low) else len(toss)


def identify_flight(tosses: Sequence[Toss]) -> Flight:
    """Return gravity and the centre of mass from the flights of tosses."""
    used = [(toss, n) for toss in tosses if (n := flight_samples(toss)) >= FEWEST]
    blocks = [_without_line(toss, n) for toss, n in used]
    total = np.array([A.T @ A for A, _ in blocks]).sum(axis=0)
    found = np.linalg.solve(total, np.sum([A.T @ y for A, y in blocks], axis=0))
    scores = np.array([A.T @ (y - A @ found) for A, y in blocks])
    inverse = np.linalg.inv(total)
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))  # the sandwich estimate, toss by toss
    residuals = np.concatenate([y - A @ found for A, y in blocks])
    return Flight(
        gravity=float(found[0]),
        centre=tuple(found[1:].tolist()),
        gravity_error=float(errors[0]),
        centre_error=tuple(errors[1:].tolist()),
        residual=float(np.sqrt(np.mean(residuals**2))),
        tosses=len(used),
    )


def _without_line(toss: Toss, samples: int) -> tuple[Array, Array]:
    """Return A (3N, 4) and y (3N) with y ≈ A (g, c), from which a straight line of each axis is removed."""
    t = np.arange(samples) / RATE
    basis, _ = np.linalg.qr(np.column_stack([np.ones(samples), t]))
    A = np.zeros((samples, 3, 4))
    A[:, 2, 0] = -0.5 * t**2
    A[:, :, 1:] = -toss.rotation[:samples]
    free = np.eye(samples) - basis @ basis.T
    y = free @ toss.position[:samples]
    return np.einsum("nm,mac->nac", free, A).reshape(-1, 4), y.ravel()


FASTEST = 4.0
"""Corners lower than they fall within a step at this speed are given to the engine [m/s]."""


class Forecast(NamedTuple):
    """Forecast of N samples, the first of which is given."""

    position: Array  # of the geometric centre [m] (N, 3)
    rotation: Array  # (N, 3, 3)
    failed: int  # steps whose engine reported a failure


class Contact(NamedTuple):
    """Parameters of the contacts of a block."""

    mu: float  # friction coefficient
    # stiffness, dissipation: of each contact point [N/m], [s]; None: the engine's own
    stiffness: float | None = None
    dissipation: float = 0.0


def first_motion(block: Block, toss: Toss, sample: int, step: float) -> Motion:
    """Return the state from which a forecast starts at a sample. step: length of a semi-implicit step [s]

    A measured velocity belongs to half a sample earlier. Gravity has acted since then, and a semi-implicit step counts half a
    step of gravity too much: both are corrected, in contact as in flight.
    """
    rotation, spin = toss.rotation[sample], toss.spin[sample]
    before = turned(rotation, -0.5 / RATE * spin)
    velocity = np.concatenate((toss.velocity[sample] + before @ np.cross(spin, block.centre), spin))
    velocity[2] -= 0.5 * block.gravity * (1.0 / RATE - step)
    return Motion(position=toss.position[sample] + rotation @ block.centre, rotation=rotation, velocity=velocity)


class Forecaster(ABC):
    """Forecasts of a block. step: length of a semi-implicit step [s]; `failed`: number of failures in the last forecast"""

    failed = 0

    def __init__(self, block: Block, step: float) -> None:
        self.block, self.step = block, step

    def __call__(self, toss: Toss, sample: int, samples: int) -> Forecast:
        """Return the forecast of `samples` samples of a toss, the first of which is `sample`, given."""
        positions, rotations = np.empty((samples, 3)), np.empty((samples, 3, 3))
        positions[0], rotations[0] = toss.position[sample], toss.rotation[sample]
        poses = self.poses(first_motion(self.block, toss, sample, self.step))
        for k, (position, rotation) in zip(range(1, samples), poses, strict=False):
            positions[k], rotations[k] = position - rotation @ self.block.centre, rotation
        return Forecast(positions, rotations, self.failed)

    @abstractmethod
    def poses(self, motion: Motion) -> Iterator[tuple[Array, Array]]:
        """Yield position of the centre of mass [m] (3) and rotation (3, 3) of the samples after a motion; set `failed`."""


class EngineForecaster(Forecaster):
    """Forecasts by an engine of the project. substeps: steps per sample"""

    def __init__(self, block: Block, engine: Engine, contact: Contact, substeps: int) -> None:
        super().__init__(block, 1.0 / (RATE * substeps))
        self._engine, self._contact, self._substeps, self._corners = engine, contact, substeps, block.corners
        self._M = np.diag([block.mass] * 3 + [block.inertia] * 3)
        self._h = np.array([0.0, 0.0, block.mass * block.gravity, 0.0, 0.0, 0.0])
        self._fall = np.array([0.0, 0.0, -self.step * block.gravity, 0.0, 0.0, 0.0])

    def poses(self, motion: Motion) -> Iterator[tuple[Array, Array]]:
        self.failed = 0
        while True:
            for _ in range(self._substeps):
                motion = self._advanced(motion)
            yield motion.position, motion.rotation

    def _advanced(self, motion: Motion) -> Motion:
        """Return the state after a step."""
        v = motion.velocity + self._fall
        J, gaps = contact_terms(motion.position, motion.rotation, self._corners, FASTEST * self.step)
        if len(gaps):
            solution = self._engine.solve(self._problem(motion.velocity, J, gaps))
            v = solution.v_plus
            self.failed += not solution.status.ok
        turn = turned(motion.rotation, self.step * v[3:])
        return Motion(position=motion.position + self.step * v[:3], rotation=turn, velocity=v)

    def _problem(self, v: Array, J: Array, gaps: Array) -> ForwardProblem:
        n, contact = len(gaps), self._contact
        soft = contact.stiffness is not None
        return ForwardProblem(
            M=self._M,
            h=self._h,
            v=v,
            J=J,
            force=np.zeros(6),
            mu=np.full(n, contact.mu),
            gaps=gaps,
            dt=self.step,
            stiffness=np.full(n, contact.stiffness) if soft else None,
            dissipation=np.full(n, contact.dissipation) if soft else None,
        )


MUJOCO_SUBSTEPS = 8
"""Steps per sample in MuJoCo: 0.84 ms."""


class MujocoForecaster(Forecaster):
    """Forecasts by MuJoCo: its own box, plane, contact model and semi-implicit Euler steps.

    mu: friction coefficient; solref: time constant [s] and damping ratio of the contacts
    """

    def __init__(self, block: Block, mu: float, solref: tuple[float, float]) -> None:
        from sim_harness.mujoco.door import mujoco  # noqa: PLC0415 - an optional package

        super().__init__(block, 1.0 / (RATE * MUJOCO_SUBSTEPS))
        spec = mujoco.MjSpec()
        spec.option.timestep = self.step
        spec.option.gravity = [0.0, 0.0, -block.gravity]
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        contact = {"friction": [mu, 0.0, 0.0], "solref": list(solref), "condim": 3}
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **contact)
        moment = [block.inertia] * 3  # the frame of the body is at the centre of mass
        body = spec.worldbody.add_body(mass=block.mass, inertia=moment, ipos=[0.0, 0.0, 0.0], explicitinertial=True)
        body.add_freejoint()
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[block.half] * 3, pos=-block.centre, **contact)
        self._mujoco, self._model = mujoco, spec.compile()
        self._data = mujoco.MjData(self._model)

    def poses(self, motion: Motion) -> Iterator[tuple[Array, Array]]:
        mujoco, model, data, turn = self._mujoco, self._model, self._data, np.empty(9)
        mujoco.mj_resetData(model, data)
        mujoco.mju_mat2Quat(data.qpos[3:], motion.rotation.ravel())
        data.qpos[:3], data.qvel[:] = motion.position, motion.velocity
        while True:
            mujoco.mj_step(model, data, MUJOCO_SUBSTEPS)
            mujoco.mju_quat2Mat(turn, data.qpos[3:])
            self.failed = int(sum(warning.number for warning in data.warning))
            yield data.qpos[:3], turn.reshape(3, 3)
