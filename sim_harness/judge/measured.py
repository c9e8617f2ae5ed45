"""Measured motion of a block on the floor as steps: no force was measured, so each step gets the best impulses.

A step goes from one sample to the next. Its impulses explain the measured change of momentum with the least error
‖M (v⁺ − v) − Jᵀp − dt (force − h)‖ in the metric M⁻¹, within friction pyramids of `EDGES` edges. What they cannot explain is
named by the verdict as momentum that does not balance; the other violations tell what of the motion contradicts Coulomb's law.
"""

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import nnls

from idyn.errors import InputError
from idyn.laws.law import polygon
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step

TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "IntStorage": "<i4", "LongStorage": "<i8"}
"""Storage type of PyTorch → type of its numbers."""


class _Reader(pickle.Unpickler):
    """Unpickler that knows tensors, and refuses all other classes and functions."""

    archive: zipfile.ZipFile
    folder: str

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in TYPES:
            return TYPES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        raise pickle.UnpicklingError(f"expected a tensor, got {module}.{name}")

    def persistent_load(self, pid: Any) -> Array:
        _, kind, key, _, count = pid
        found = np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), dtype=kind)
        if len(found) != count:
            raise pickle.UnpicklingError(f"expected {count} numbers, got {len(found)}")
        return found


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Array:
    """Return a tensor as an array of its own."""
    numbers = storage[offset:]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    stretched = prod(shape) > len(numbers)  # a stride of 0 would repeat numbers without bound
    if min((*shape, *strides, offset), default=0) < 0 or stretched or (0 not in shape and last >= len(numbers)):
        raise pickle.UnpicklingError(f"expected numbers for the shape {shape}")
    steps = [stride * numbers.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=False).copy()


def read_tensor(path: Path) -> Array:
    """Return the tensor of a file. Raises InputError for anything else, and for files older than PyTorch 1.6."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(name) as file:
                reader = _Reader(file)
                reader.archive, reader.folder = archive, name.removesuffix("/data.pkl")
                found = reader.load()
    except Exception as error:  # a pickle of a foreign file may raise anything
        raise InputError(str(path), f"expected a tensor of torch.save, PyTorch 1.6 or later ({error!r})") from error
    if not isinstance(found, np.ndarray):
        raise InputError(str(path), f"expected a tensor, got {type(found).__name__}")
    return found


EDGES = 16
"""Number of edges of the friction pyramids."""

NEAR = 0.01
"""Corners lower than this are contacts, if they can reach the floor within the step [m]."""

CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class Motion(Protocol):
    """Measured samples (N): position of the centre [m] (N, 3), rotation (N, 3, 3), velocity in the world [m/s] and spin in body
    axes [rad/s] (N, 3) since the sample before; z is up, the floor is at z = 0."""

    @property
    def position(self) -> Array: ...

    @property
    def rotation(self) -> Array: ...

    @property
    def velocity(self) -> Array: ...

    @property
    def spin(self) -> Array: ...


class Block(NamedTuple):
    """A block. edge [m]; mass [kg]; inertia: of each axis, relative to mass · (edge/2)²; friction coefficient"""

    edge: float
    mass: float
    inertia: float = 10.0 / 9.0
    friction: float = 0.18


GRAVITY = 9.81
"""[m/s²]"""


class Sample(NamedTuple):
    """A step without impulses. name: for reports; v_plus: velocity at its end, in the world and in body axes (6)"""

    name: str
    problem: ForwardProblem
    v_plus: Array


def samples_of(name: str, motion: Motion, block: Block, dt: float) -> Iterator[Sample]:
    """Yield the samples with corners near the floor. dt: time between two samples [s]"""
    lowest = motion.position[:, 2] - block.edge / 2.0 * np.abs(motion.rotation[:, 2]).sum(axis=1)
    for k in np.flatnonzero(lowest[:-1] < NEAR).tolist():
        problem = _problem(motion, k, block, dt)
        if len(problem.mu):
            v_plus = np.concatenate([motion.velocity[k + 1], motion.spin[k + 1]]).astype(float)
            yield Sample(f"{name}, sample {k}", problem, v_plus)


def explained_step(sample: Sample) -> Step:
    """Return the step with the impulses that explain the motion best."""
    p = explained(sample.problem, sample.v_plus)
    return Step(name=sample.name, problem=sample.problem, p=p, v_plus=sample.v_plus)


def _problem(motion: Motion, k: int, block: Block, dt: float) -> ForwardProblem:
    """Return the step from sample k on: world coordinates for the centre, body axes for the rotation."""
    R, spin = motion.rotation[k].astype(float), motion.spin[k].astype(float)
    v = np.concatenate([motion.velocity[k], spin]).astype(float)
    inertia = block.inertia * block.mass * (block.edge / 2.0) ** 2 * np.ones(3)
    rows, gaps = [], []
    for corner in block.edge / 2.0 * CORNERS:
        gap = float(motion.position[k, 2] + R[2] @ corner)
        J = np.hstack([np.eye(3), -R @ _cross(corner)])  # velocity v + R (ω × r)
        reach = -dt * min(J[2] @ v, J[2] @ np.concatenate([motion.velocity[k + 1], motion.spin[k + 1]]))
        if gap < min(NEAR, max(reach, 0.0) + NEAR / 10.0):
            rows.append(J)
            gaps.append(gap)
    n = len(gaps)
    return ForwardProblem(
        M=np.diag(np.concatenate([block.mass * np.ones(3), inertia])),
        h=np.concatenate([[0.0, 0.0, block.mass * GRAVITY], np.cross(spin, inertia * spin)]),
        v=v,
        J=np.vstack(rows) if n else np.zeros((0, 6)),
        force=np.zeros(6),
        mu=np.full(n, block.friction),
        gaps=np.array(gaps),
        dt=dt,
    )


def explained(problem: ForwardProblem, v_plus: Array) -> Array:
    """Return the impulses (3n) within the pyramids that explain v⁺ best in the metric M⁻¹ [N·s]."""
    b, corners = problem, polygon(EDGES)
    scale = np.linalg.inv(np.linalg.cholesky(b.M))
    change = b.M @ (v_plus - b.v) - b.dt * (b.force - b.h)
    edges = np.zeros((3 * len(b.mu), EDGES * len(b.mu)))
    for i, mu in enumerate(b.mu):
        columns = slice(EDGES * i, EDGES * (i + 1))
        edges[3 * i : 3 * i + 2, columns], edges[3 * i + 2, columns] = mu * corners.T, 1.0
    return np.asarray(edges @ nnls(scale @ b.J.T @ edges, scale @ change)[0])


def _cross(r: Array) -> Array:
    """Return the matrix of r × ·"""
    return np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
