"""Numbers of tasks as they are read in every tick: targets, gains, weights, with their checks."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.model.so3 import is_rotation
from idyn.terms.inputs import finite, numbers
from idyn.types import Array

Numbers = Array | Sequence[float]

_FLOAT64 = np.dtype(np.float64)


def sized(field: str, given: float | Numbers, size: int, *, one_for_all: bool = True) -> Array:
    """Return `size` finite numbers from an array, or from a single number if one may stand for all. Raises InputError."""
    if type(given) is np.ndarray and given.dtype is _FLOAT64 and given.shape == (size,) and finite(given):
        return given
    array = numbers(field, given)
    array = np.full(size, float(array)) if array.ndim == 0 and (one_for_all or size == 1) else array
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(field, f"expected {size} finite number{'s' * (size > 1)}, got {given!r:.100}")
    return array


def gains(stiffness: float | Numbers, damping: float | Numbers | None, size: int) -> tuple[Array, Array]:
    """Return stiffness and damping for each component (size), critical damping for None. Raises InputError."""
    if type(stiffness) is float and (damping is None or type(damping) is float):
        return _equal_gains(stiffness, damping, size)
    k = _not_negative("stiffness", stiffness, size)
    return k, 2.0 * np.sqrt(k) if damping is None else _not_negative("damping", damping, size)


@lru_cache(maxsize=256)
def _equal_gains(stiffness: float, damping: float | None, size: int) -> tuple[Array, Array]:
    return gains(np.full(size, stiffness), None if damping is None else np.full(size, damping), size)


def _not_negative(field: str, given: float | Numbers, size: int) -> Array:
    array = sized(field, given, size)
    if (array < 0.0).any():
        raise InputError(field, "expected numbers ≥ 0")
    return array


def mask_of(given: Sequence[bool], size: int) -> Array:
    """Return a mask as an array. Raises InputError."""
    mask = np.asarray(given)
    if mask.shape != (size,) or mask.dtype != np.bool_ or not mask.any():
        raise InputError("mask", f"expected {size} booleans, at least one of them true, got {given!r}")
    return mask


class Read:
    """Numbers of tasks, flat: the users' own arrays where these have the right form, else checked copies.

    arrays: one after the other; lasting: whether they follow the users' arrays, until tasks are replaced
    """

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.lasting = True

    def add(self, given: Array, lasting: bool) -> None:
        """Add checked numbers. lasting: whether they stay as they are"""
        self.arrays.append(given)
        self.lasting = self.lasting and lasting

    def target(self, name: str, given: Any, size: int) -> None:
        """Add a target of this size, a rotation matrix by rows; kernels see whether it is finite. Raises InputError."""
        shape, array = (3, 3) if name == "rotation" else (size,), given
        if type(given) is list and len(given) == size and isinstance(given[0], float):
            array = _numbers(given)
        if type(array) is not np.ndarray or array.dtype is not _FLOAT64 or array.shape != shape:
            self.add(checked_target(name, given, size), isinstance(given, float))
            return
        if len(shape) == 1:
            self.arrays.append(array)
        else:
            self.arrays.extend(array)
        if array is not given:
            self.lasting = False


def _numbers(given: list[Any]) -> Array | None:
    """Return a list as an array; None for lists of lists of different lengths."""
    try:
        return np.array(given)
    except ValueError:
        return None


def checked_target(name: str, given: Any, size: int) -> Array:
    """Return a target as numbers (size). Raises InputError."""
    if name == "rotation":
        R = numbers(name, given)
        if R.shape != (3, 3) or not is_rotation(R):
            raise InputError(name, "expected a rotation matrix (3, 3), with the frame's axes as columns")
        return R.reshape(size)
    return sized(name, given, size, one_for_all=False)


def roots_of(weight: float | Numbers, count: int) -> Array:
    """Return the square root of the weight of each row (count). Raises InputError."""
    if type(weight) is float:
        return _equal_roots(weight, count)
    array = np.asarray(weight, dtype=np.float64)
    if array.ndim and array.shape != (count,):
        raise InputError("weight", f"expected a number or {count} numbers, got shape {array.shape}")
    return np.sqrt(np.broadcast_to(array, count))


@lru_cache(maxsize=256)
def _equal_roots(weight: float, count: int) -> Array:
    return np.full(count, weight**0.5)
