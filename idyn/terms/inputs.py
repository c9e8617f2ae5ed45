"""Input checks: shapes, types, finite values, unit lengths. The functions `check…` raise an InputError that names the field."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.jit.compiled import compiled, interpreted
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Guess, Record, State

R = TypeVar("R", bound=Record)

UNIT = 1e-5
"""Tolerance of the length of quaternions, normals and tangents, and of the cosine between normals and tangents."""

LARGEST_FORCE = 1e9
"""Largest component of a preferred force [N]: rounding of larger ones would reach the torques."""

OF_CONTACTS = {
    1: ("points", "expected finite coordinates"),
    2: ("normals", "expected a unit vector"),
    3: ("tangents", "expected a unit vector at right angles to the normal"),
    4: ("mu", "expected ≥ 0, inf for no limit"),
    5: ("gaps", "expected a finite number"),
    6: ("bodies", "expected the index of a joint, and another one in `others`"),
    7: ("radii", "expected a finite number ≥ 0"),
}
"""Error code returned by `contact_flaw` → (field, message that says what is expected)."""

_NONE = np.zeros(0)

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


def check(robot: Robot, state: State, contacts: ContactSet, applied: Array | None) -> None:
    """Raise InputError for the first malformed field of a state, its contacts and the applied force."""
    q, n = state.q, len(contacts.keys)
    check_keys(contacts.keys)
    _check_shapes(
        (
            ("q", q, (robot.nq,)),
            ("v", state.v, (robot.nv,)),
            ("applied", _NONE if applied is None else applied, (0,) if applied is None else (robot.nv,)),
            ("contacts.points", contacts.points, (n, 3)),
            ("contacts.normals", contacts.normals, (n, 3)),
            ("contacts.tangents", contacts.tangents, (n, 3)),
            ("contacts.mu", contacts.mu, (n,)),
            ("contacts.gaps", contacts.gaps, (n,)),
            ("contacts.radii", contacts.radii, (n,)),
        ),
        _FLOAT64,
    )
    _check_shapes((("contacts.bodies", contacts.bodies, (n,)), ("contacts.others", contacts.others, (n,))), _INT64)
    for field, values in (("q", q), ("v", state.v), ("applied", _NONE if applied is None else applied)):
        _check_finite(field, values)
    check_turns(robot, q)
    flaw, row = interpreted(contact_flaw)(contacts, len(robot.tree.parents))
    if flaw:
        name, message = OF_CONTACTS[flaw]
        raise InputError(f"contacts.{name}[{row}]", f"{message}, got {getattr(contacts, name)[row]}")


def check_keys(keys: tuple[str, ...]) -> None:
    """Raise InputError unless the keys of contacts are different: forces and basis of the last tick are found by key."""
    if not isinstance(keys, tuple) or not all(isinstance(key, str) for key in keys):
        raise InputError("contacts.keys", f"expected a tuple of strings, got {keys!r:.100}")
    if len(set(keys)) < len(keys):
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise InputError("contacts.keys", f"expected different keys, got '{repeated}' twice")


def check_size(robot: Robot, state: State) -> None:
    """Raise InputError if q or v does not have the size of the robot."""
    if state.q.shape != (robot.nq,) or state.v.shape != (robot.nv,):
        _check_shapes((("q", state.q, (robot.nq,)), ("v", state.v, (robot.nv,))), _FLOAT64)


def check_turns(robot: Robot, q: Array) -> None:
    """Raise InputError for the first quaternion or (cos, sin) pair in q (nq) that is not of unit length."""
    for start, end in robot.tree.unit_spans.tolist():
        if not interpreted(of_unit_length)(q, np.array([[start, end]])):
            kind, length = "quaternion" if end - start == 4 else "(cos, sin)", float(np.linalg.norm(q[start:end]))
            raise InputError(f"q[{start}:{end}]", f"expected a unit {kind}, got length {length:.6g}")


def check_request(robot: Robot, n: int, q_ddot: Array, dt: float, guess: Guess | None, preferred: Array | None) -> None:
    """Raise InputError for the first malformed argument of a prediction with n contacts. The basis of a guess is not checked,
    as solvers only start from it."""
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    asked: list[tuple[str, Array, tuple[int, ...]]] = [("q_ddot", q_ddot, (robot.na,))]
    if preferred is not None:
        asked.append(("preferred", preferred, (n, 3)))
    if guess is not None:
        asked += [("guess.tau", guess.tau, (robot.na,)), ("guess.force", guess.force, (len(guess.keys), 3))]
    _check_shapes(asked, _FLOAT64)
    if not finite(q_ddot):
        _check_finite("q_ddot", q_ddot)
    if preferred is not None and not interpreted(acceptable)(preferred):
        i, c = np.argwhere(~(np.abs(preferred) <= LARGEST_FORCE))[0]
        raise InputError(f"preferred[{i}, {c}]", f"expected a force of at most {LARGEST_FORCE:g} N, got {preferred[i, c]:g}")


def _check_shapes(arrays: Iterable[tuple[str, Array, tuple[int, ...]]], dtype: np.dtype) -> None:
    for field, value, shape in arrays:
        if not isinstance(value, np.ndarray) or value.shape != shape or (value.dtype is not dtype and value.dtype != dtype):
            got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise InputError(field, f"expected an array {dtype} {shape}, got {got}")


def _check_finite(field: str, values: Array) -> None:
    for i in np.flatnonzero(~np.isfinite(values)):
        raise InputError(f"{field}[{i}]", "expected a finite number")


def numbers(field: str, given: Any, dtype: np.dtype = _FLOAT64) -> Array:
    """Return a contiguous copy of an array or of a list of numbers, whose type may be narrower than `dtype`: float32, integers.

    Raises InputError for other types, and for lists of unequal lengths.
    """
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(field, f"expected an array {dtype}, got {type(given).__name__}: {error}") from error
    if array.size and (array.dtype.kind not in "iuf" or not np.can_cast(array.dtype, dtype)):
        raise InputError(field, f"expected an array {dtype}, got {array.dtype if array.ndim else type(given).__name__}")
    return np.array(array, dtype, order="C")


def numbers_of(record: R, prefix: str = "") -> R:
    """Return a copy of a record of arrays, of which `bodies` and `others` are int64, converted by `numbers`."""
    fields = ((name, getattr(record, name)) for name in record.__struct_fields__ if name != "keys")
    indices = ("bodies", "others")
    arrays = {name: numbers(f"{prefix}{name}", a, _INT64 if name in indices else _FLOAT64) for name, a in fields}
    return msgspec.structs.replace(record, **arrays)


@compiled
def finite(values: Array) -> bool:
    """Return whether all values (n) are finite."""
    sound = True
    for value in values:
        sound = sound and bool(np.isfinite(value))
    return sound


@compiled
def acceptable(forces: Array) -> bool:
    """Return whether all components of preferred forces (n, 3) are finite and at most LARGEST_FORCE."""
    sound = True
    for i in range(len(forces)):
        for c in range(3):
            sound = sound and abs(forces[i, c]) <= LARGEST_FORCE
    return sound


@compiled
def of_unit_length(q: Array, unit_spans: Array) -> bool:
    """Return whether each part q[start:end] is of unit length. unit_spans: starts and ends (·, 2)"""
    for k in range(len(unit_spans)):
        square = 0.0
        for i in range(unit_spans[k, 0], unit_spans[k, 1]):
            square += q[i] * q[i]
        if not abs(square - 1.0) <= 2.0 * UNIT:
            return False
    return True


@compiled
def contact_flaw(c: Any, joints: int) -> tuple[int, int]:
    """Find the first malformed contact. Return the error, a key of `OF_CONTACTS` or 0 if all are valid, and the contact's row.

    c: any record with the arrays of a contact set; joints: number of joints of the robot
    """
    for i in range(len(c.mu)):
        n2, s2, across = 0.0, 0.0, 0.0
        for k in range(3):
            if not np.isfinite(c.points[i, k]):
                return 1, i
            n2 += c.normals[i, k] * c.normals[i, k]
            s2 += c.tangents[i, k] * c.tangents[i, k]
            across += c.normals[i, k] * c.tangents[i, k]
        if not abs(n2 - 1.0) <= 2.0 * UNIT:
            return 2, i
        if not (abs(s2 - 1.0) <= 2.0 * UNIT and abs(across) <= UNIT):
            return 3, i
        if not c.mu[i] >= 0.0:
            return 4, i
        if not np.isfinite(c.gaps[i]):
            return 5, i
        if not (0 <= c.bodies[i] < joints and 0 <= c.others[i] < joints and c.bodies[i] != c.others[i]):
            return 6, i
        if not 0.0 <= c.radii[i] < np.inf:
            return 7, i
    return 0, 0
