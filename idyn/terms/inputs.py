"""The validate stage: checks of inputs, and their copies in a `Given`. `check…` raise an InputError that names the field."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np

from idyn.contact.ground import in_contact_rows
from idyn.errors import InputError
from idyn.library.kernels import compiled, entry, interpreted, stack_array
from idyn.library.records import Indices, Matrix, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import copy, copy_rows, fill, row_basis
from idyn.terms.stages import Given
from idyn.types import Array, ContactSet, Guess, Record, State

R = TypeVar("R", bound=Record)

UNIT = 1e-5  # tolerance of the length of quaternions, normals and tangents, and of the cosine between normals and tangents
INDEPENDENT = 1e-2  # given rows are independent if more than this share of the longest one is orthogonal to the others
LARGEST_FORCE = 1e9  # largest component of a preferred force [N]: rounding of larger ones would reach the torques

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

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


def check(robot: Robot, state: State, contacts: ContactSet, applied: Array | None) -> None:
    """Raise InputError for the first malformed field of a state, its contacts and the applied force."""
    n = len(contacts.keys)
    check_keys(contacts.keys)
    asked: list[tuple[str, Array, tuple[int, ...]]] = [("q", state.q, (robot.nq,)), ("v", state.v, (robot.nv,))]
    asked += [] if applied is None else [("applied", applied, (robot.nv,))]
    sizes: dict[str, tuple[int, ...]] = dict.fromkeys(("points", "normals", "tangents"), (n, 3))
    sizes |= dict.fromkeys(("mu", "gaps", "radii"), (n,))
    _check_shapes([*asked, *((f"contacts.{name}", getattr(contacts, name), size) for name, size in sizes.items())], _FLOAT64)
    _check_shapes((("contacts.bodies", contacts.bodies, (n,)), ("contacts.others", contacts.others, (n,))), _INT64)
    for field, values, _ in asked:
        _check_finite(field, values)
    check_turns(robot, state.q)
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


@entry(Vector)
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


Arrays = tuple[Array, ...]

CONTACTS = (Indices, Indices, Matrix, Matrix, Matrix, Vector, Vector, Vector)
"""Argument types of the arrays of a `ContactSet`, in the order of its fields."""


@compiled
def read_given(given: Given, state: Arrays, contacts: Arrays, last: Array) -> bool:
    """Fill a `Given` from the state, Pinocchio's terms and the contacts. Return whether all inputs are valid;
    `idyn.terms.inputs.check` then finds the invalid field.

    state: (q (nq), v (nv), applied force (nv) or an empty array); contacts: see `CONTACTS`
    last: contact forces of the last tick in the world [N] (n, 3), or an empty array (0, 3)
    """
    # check shapes, finite values and unit quaternions
    (q, v, applied), (bodies, others, points, normals, tangents, mu, gaps, radii) = state, contacts
    n, nv = len(given.mu), len(given.v)
    given.ticks += 1
    shaped = len(q) == given.model.nq and len(v) == nv and (len(applied) == 0 or len(applied) == nv)
    shaped = shaped and len(bodies) == len(others) == len(mu) == len(gaps) == len(radii) == n
    shaped = shaped and points.shape == (n, 3) and normals.shape == (n, 3) and tangents.shape == (n, 3)
    shaped = shaped and (len(last) == 0 or last.shape == (n, 3))
    if not (shaped and finite(q) and finite(v) and finite(applied) and of_unit_length(q, given.model.unit_spans)):
        return False
    # state and Pinocchio's terms; h minus the applied force
    copy(q, given.q)
    copy(v, given.v)
    copy(given.own_h, given.h)
    copy_rows(given.own_M, given.M)
    copy_rows(given.own_axes, given.axes)
    for k in range(len(given.ends)):
        copy_rows(given.own_ends[k], given.ends[k])
    for j in range(len(applied)):
        given.h[j] -= applied[j]
    # contacts
    copy(bodies, given.bodies)
    copy(others, given.others)
    copy_rows(points, given.points)
    copy_rows(normals, given.normals)
    copy_rows(tangents, given.tangents)
    copy(mu, given.mu)
    copy(gaps, given.gaps)
    copy(radii, given.radii)
    flaw, _ = contact_flaw(given, len(given.model.parents))
    if flaw != 0:
        return False
    for i in range(n):
        for c in range(3):
            given.points[i, c] -= given.own_origin[c]
            if given.midway:
                given.points[i, c] -= 0.5 * gaps[i] * normals[i, c]
    recall(given, last)
    given.dependent = given.contact_drift and _may_depend(given)
    return True


@compiled
def _may_depend(g: Given) -> bool:
    """Return whether contact rows may depend on each other: unless each body touches the ground by at most as many rows as it
    has degrees of freedom of its own, those that move no other body with a contact. Three points of a body count as six rows.
    Given rows, whose bodies are not known, are compared by their numbers.
    """
    if len(g.ends) > 0:
        return True
    if len(g.rows) > 0:
        return len(row_basis(g.rows, INDEPENDENT)) < len(g.rows)
    n, bodies, support, spare = len(g.mu), g.bodies, g.model.support, stack_array(len(g.model.parents), np.int64)
    for i in range(n):
        spare[bodies[i]] = 0
        if g.others[i] != 0:
            return True
    for j in range(len(g.v)):
        owner = -1
        for i in range(n):
            if support[bodies[i], j] and owner != bodies[i]:
                if owner >= 0:
                    owner = -1
                    break
                owner = bodies[i]
        if owner >= 0:
            spare[owner] += 1
    for i in range(n):
        points = 0
        for k in range(n):
            points += bodies[k] == bodies[i]
        if spare[bodies[i]] < min(3 * points, 6):
            return True
    return False


@compiled
def recall(given: Given, last: Array) -> None:
    """Fill p⁻ from the contact forces of the last tick in the world [N] (n, 3); zero if `last` is empty (0, 3) or contains NaN
    or infinite values."""
    in_contact_rows(last, given.tangents, given.normals, given.dt, given.last)
    if len(last) == 0 or not finite(given.last):
        fill(given.last, 0.0)


@entry(Given, float)
def limit_friction(given: Given, most: float) -> None:
    """Reduce friction coefficients above `most` to it."""
    for i in range(len(given.mu)):
        given.mu[i] = min(given.mu[i], most)
