"""Fields of tasks, checked: targets, gains, masks and weights."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from idyn.errors import InputError
from idyn.tasks.frames import is_rotation
from idyn.terms.inputs import finite, numbers
from idyn.types import Array

Numbers = Array | Sequence[float]

_FLOAT64 = np.dtype(np.float64)


def sized(field: str, given: float | Numbers, size: int) -> Array:
    """Return `size` finite numbers from an array or a single number. Raises InputError."""
    if type(given) is np.ndarray and given.dtype is _FLOAT64 and given.shape == (size,) and finite(given):
        return given
    array = numbers(field, given)
    array = np.full(size, float(array)) if array.ndim == 0 else array
    if array.shape != (size,):
        raise InputError(field, f"expected {size} numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(field, "expected finite numbers")
    return array


def gains(stiffness: float | Numbers, damping: float | Numbers | None, size: int) -> tuple[Array, Array]:
    """Return stiffness and damping for each component (size), critical damping for None. Raises InputError."""
    if type(stiffness) is float and (damping is None or type(damping) is float):
        return _equal_gains(stiffness, damping, size)
    k = _not_negative("stiffness", stiffness, size)
    return k, 2.0 * np.sqrt(k) if damping is None else _not_negative("damping", damping, size)


def frame_gains(stiffness: float | Numbers, damping: float | Numbers | None) -> Array:
    """Return stiffness (6), then damping (6) of a frame task. Raises InputError."""
    if type(stiffness) is float and (damping is None or type(damping) is float):
        return _equal_frame_gains(stiffness, damping)
    return np.concatenate(gains(stiffness, damping, 6))


@lru_cache(maxsize=256)
def _equal_gains(stiffness: float, damping: float | None, size: int) -> tuple[Array, Array]:
    return gains(np.full(size, stiffness), None if damping is None else np.full(size, damping), size)


@lru_cache(maxsize=256)
def _equal_frame_gains(stiffness: float, damping: float | None) -> Array:
    return np.concatenate(_equal_gains(stiffness, damping, 6))


def _not_negative(field: str, given: float | Numbers, size: int) -> Array:
    array = sized(field, given, size)
    if (array < 0.0).any():
        raise InputError(field, "expected numbers ≥ 0")
    return array


def rotation(field: str, given: Array) -> Array:
    """Return a rotation matrix (3, 3). Raises InputError."""
    if type(given) is np.ndarray and given.dtype is _FLOAT64 and given.shape == (3, 3) and is_rotation(given):
        return given
    R = numbers(field, given)
    if R.shape != (3, 3) or not is_rotation(R):
        raise InputError(field, "expected a rotation matrix (3, 3), with the frame's axes as columns")
    return R


def mask_of(given: Sequence[bool], size: int) -> Array:
    """Return a mask as an array. Raises InputError."""
    mask = np.asarray(given)
    if mask.shape != (size,) or mask.dtype != np.bool_ or not mask.any():
        raise InputError("mask", f"expected {size} booleans, at least one of them true, got {given!r}")
    return mask


def fill_roots(weight: float | Numbers, roots: Array) -> None:
    """Fill the square roots of the weight of each row. Raises InputError."""
    if type(weight) is float:
        roots.fill(weight**0.5)
        return
    array = np.asarray(weight, dtype=np.float64)
    if array.ndim and array.shape != roots.shape:
        raise InputError("weight", f"expected a number or {len(roots)} numbers, got shape {array.shape}")
    roots[:] = np.sqrt(array)
