"""Measured motion of a block on the floor as steps: no force was measured, so each step gets the best impulses.

A step goes from one sample to the next. Its impulses explain the measured change of momentum with the least error
‖M (v⁺ − v) − Jᵀp − dt (force − h)‖ in the metric M⁻¹, within friction pyramids of `EDGES` edges. What they cannot explain is
named by the verdict as momentum that does not balance; the other violations tell what of the motion contradicts Coulomb's law.
"""

import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import msgspec
import numpy as np
from scipy.optimize import nnls

from idyn.errors import ConfigError, InputError
from idyn.laws.law import polygon
from idyn.types import Array, Record
from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step

FILE = "cube-tosses.npz"
"""Name of the file with the tosses in its folder."""

VARIABLE = "IDYN_DATA"
"""Environment variable with the folder of measured data."""

COLUMNS = {"position": 3, "quaternion_wxyz": 4, "velocity": 3, "angular_velocity": 3}
"""Arrays of the file with one row per sample, and their number of columns."""

RATE = 148.0
"""Samples per second [Hz]."""

EDGE = 0.1048
"""Edge of the block as its source gives it, the block width of all results [m]."""

MASS = 0.37
"""Mass of the block [kg]."""


class Toss(Record, frozen=True):
    """One toss, N samples at `RATE`. z is up, the floor is at z = 0."""

    position: Array  # of the block's geometric centre [m] (N, 3)
    rotation: Array  # body axes in the world (N, 3, 3)
    velocity: Array  # of the geometric centre, a backward difference, so that of half a sample earlier [m/s] (N, 3)
    spin: Array  # angular velocity in body axes, likewise [rad/s] (N, 3)

    def __len__(self) -> int:
        return len(self.position)


def default_folder() -> Path:
    """Return the folder of measured data: that of the environment variable `IDYN_DATA`, or `../shared/data`."""
    return Path(os.environ.get(VARIABLE) or Path.cwd().parent / "shared" / "data")


def load_tosses(folder: Path) -> list[Toss]:
    """Return the tosses of a folder with `cube-tosses.npz`, or of an .npz file of this layout.

    Raises ConfigError that names the file and the array that is missing or malformed.
    """
    path = folder if folder.suffix == ".npz" else folder / FILE
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in ("start", *COLUMNS) if name in file}
    except (OSError, ValueError, BadZipFile, EOFError) as error:
        raise ConfigError(
            "--data", f"expected a folder with {FILE}, or an .npz file of its layout, got {path}: {error}"
        ) from error
    for name in ("start", *COLUMNS):
        if name not in arrays:
            raise ConfigError(f"{path.name}: {name}", f"expected an array of this name, got {', '.join(arrays) or 'none'}")
    start = _checked_start(path.name, arrays["start"], len(arrays["position"]))
    samples = {name: _checked_column(path.name, name, arrays[name], int(start[-1])) for name in COLUMNS}
    norms = np.linalg.norm(samples["quaternion_wxyz"], axis=1)
    if np.abs(norms - 1.0).max() > 1e-3:
        raise ConfigError(
            f"{path.name}: quaternion_wxyz",
            f"expected unit quaternions, got the norm {norms[np.abs(norms - 1.0).argmax()]:.4g}",
        )
    turns = rotations_of(samples["quaternion_wxyz"] / norms[:, None])
    return [
        Toss(
            position=samples["position"][a:b],
            rotation=turns[a:b],
            velocity=samples["velocity"][a:b],
            spin=samples["angular_velocity"][a:b],
        )
        for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]


def toss_of_tensor(path: Path, tensor: Array) -> Toss:
    """Return the toss of a tensor of ContactNets: rows of position, quaternion wxyz, velocity and spin in body axes, lengths in
    half edges; (1, N, 13 or more) or (N, 13 or more). Raises ConfigError."""
    rows = tensor[0] if tensor.ndim == 3 and len(tensor) == 1 else tensor
    if rows.ndim != 2 or rows.shape[1] < 13 or not np.isfinite(rows[:, :13]).all():
        raise ConfigError(str(path), f"expected finite numbers of shape (1, N, 13 or more), got {tensor.shape}")
    rows = rows[:, :13].astype(float)
    norms = np.linalg.norm(rows[:, 3:7], axis=1)
    if np.abs(norms - 1.0).max(initial=0.0) > 1e-3:
        raise ConfigError(str(path), "expected unit quaternions in columns 3 to 6")
    turns, half = rotations_of(rows[:, 3:7] / norms[:, None]), EDGE / 2.0
    return Toss(position=half * rows[:, :3], rotation=turns, velocity=half * rows[:, 7:10], spin=rows[:, 10:])


def rotations_of(quaternions: Array) -> Array:
    """Return the rotation matrices (N, 3, 3) of unit quaternions w, x, y, z (N, 4)."""
    w, v = quaternions[:, :1, None], quaternions[:, 1:]
    cross = np.zeros((len(v), 3, 3))
    cross[:, [2, 0, 1], [1, 2, 0]], cross[:, [1, 2, 0], [2, 0, 1]] = v, -v
    return np.eye(3) + 2.0 * (w * cross + cross @ cross)


def _checked_start(file: str, start: Array, samples: int) -> Array:
    """Return the begin of each toss and the end of the last one. Raises ConfigError."""
    where = f"{file}: start"
    if start.ndim != 1 or len(start) < 2 or not np.issubdtype(start.dtype, np.integer):
        raise ConfigError(where, f"expected at least two whole numbers, got {start.dtype} of shape {start.shape}")
    if start[0] != 0 or start[-1] != samples or np.diff(start).min() < 2:
        raise ConfigError(where, f"expected rising numbers from 0 to {samples}, with two samples per toss or more")
    return start


def _checked_column(file: str, name: str, values: Array, samples: int) -> Array:
    """Return an array of samples as float64. Raises ConfigError."""
    shape = (samples, COLUMNS[name])
    if values.shape != shape or not np.issubdtype(values.dtype, np.floating):
        raise ConfigError(
            f"{file}: {name}", f"expected real numbers of shape {shape}, got {values.dtype} of shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ConfigError(
            f"{file}: {name}",
            f"expected finite numbers, got NaN or inf in sample {int(np.argwhere(~np.isfinite(values))[0, 0])}",
        )
    return values.astype(np.float64)


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


INERTIA, FRICTION = 10.0 / 9.0, 0.18
"""Inertia of the block about each axis, relative to mass · (edge/2)²; its friction coefficient."""

GRAVITY = 9.81
"""[m/s²]"""


def unexplained_steps(name: str, toss: Toss) -> Iterator[Step]:
    """Yield the steps of a toss with corners near the floor, without impulses."""
    lowest = toss.position[:, 2] - EDGE / 2.0 * np.abs(toss.rotation[:, 2]).sum(axis=1)
    for k in np.flatnonzero(lowest[:-1] < NEAR).tolist():
        problem = _problem(toss, k)
        if len(problem.mu):
            v_plus = np.concatenate([toss.velocity[k + 1], toss.spin[k + 1]]).astype(float)
            yield Step(name=f"{name}, sample {k}", problem=problem, p=np.zeros(len(problem.J)), v_plus=v_plus)


def toss_steps(path: Path) -> Iterable[Step]:
    """Return the steps on the floor of measured tosses: ContactNets' tensors (.pt), or the layout of `cube-tosses.npz`."""
    if path.suffix == ".pt":
        return unexplained_steps(path.stem, toss_of_tensor(path, read_tensor(path)))
    return (step for i, toss in enumerate(load_tosses(path)) for step in unexplained_steps(f"{path.stem}[{i}]", toss))


def explained_step(step: Step) -> Step:
    """Return the step with the impulses that explain the motion best."""
    return msgspec.structs.replace(step, p=explained(step.problem, step.v_plus))


def _problem(toss: Toss, k: int) -> ForwardProblem:
    """Return the step from sample k on: world coordinates for the centre, body axes for the rotation."""
    R, spin, dt = toss.rotation[k].astype(float), toss.spin[k].astype(float), 1.0 / RATE
    v = np.concatenate([toss.velocity[k], spin]).astype(float)
    inertia = INERTIA * MASS * (EDGE / 2.0) ** 2 * np.ones(3)
    rows, gaps = [], []
    for corner in EDGE / 2.0 * CORNERS:
        gap = float(toss.position[k, 2] + R[2] @ corner)
        J = np.hstack([np.eye(3), -R @ _cross(corner)])  # velocity v + R (ω × r)
        reach = -dt * min(J[2] @ v, J[2] @ np.concatenate([toss.velocity[k + 1], toss.spin[k + 1]]))
        if gap < min(NEAR, max(reach, 0.0) + NEAR / 10.0):
            rows.append(J)
            gaps.append(gap)
    n = len(gaps)
    return ForwardProblem(
        M=np.diag(np.concatenate([MASS * np.ones(3), inertia])),
        h=np.concatenate([[0.0, 0.0, MASS * GRAVITY], np.cross(spin, inertia * spin)]),
        v=v,
        J=np.vstack(rows) if n else np.zeros((0, 6)),
        force=np.zeros(6),
        mu=np.full(n, FRICTION),
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
