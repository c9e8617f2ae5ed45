"""Measured tosses of a block, in the layout of `cube-tosses.npz`. They are read where they are, not kept in the project."""

import os
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array, Record

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
    """One toss, N samples at `RATE`. z is up, the floor is at z = 0.

    position: of the block's geometric centre [m] (N, 3)
    rotation: body axes in the world (N, 3, 3)
    velocity: of the geometric centre, a backward difference, so that of half a sample earlier [m/s] (N, 3)
    spin: angular velocity in body axes, likewise [rad/s] (N, 3)
    """

    position: Array
    rotation: Array
    velocity: Array
    spin: Array

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
