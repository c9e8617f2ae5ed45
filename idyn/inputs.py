"""What `predict` is handed, checked once where it comes in: shapes, finite numbers, unit lengths."""

import numpy as np

from idyn.compiled import compiled
from idyn.errors import InputError
from idyn.robot import Robot
from idyn.types import Array, ContactSet, Guess, State

UNIT = 1e-5
"""Quaternions, normals and tangents are of unit length, and at right angles, within this."""

FIELDS = ("q", "v", "q_ddot", "applied")
OF_CONTACTS = {
    1: ("points", "expected finite coordinates"),
    2: ("normals", "expected a unit vector"),
    3: ("tangents", "expected a unit vector at right angles to the normal"),
    4: ("mu", "expected ≥ 0, inf for no limit"),
    5: ("gaps", "expected a finite number"),
    6: ("bodies", "expected the index of a joint, and another one in `others`"),
}
"""By what `_contact_flaw` returns."""

_NONE = np.zeros(0)


def check(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    q_ddot: Array,
    dt: float,
    guess: Guess | None,
    applied: Array | None,
    preferred: Array | None,
) -> None:
    """Raises InputError naming the first field that is malformed. What a guess says may be wrong: it is only tried."""
    if not 0.0 < dt < np.inf:
        raise InputError("dt", f"expected a finite number > 0, got {dt}")
    _check_shape("q", state.q, (robot.nq,))
    _check_shape("v", state.v, (robot.nv,))
    _check_shape("q_ddot", q_ddot, (robot.na,))
    if applied is not None:
        _check_shape("applied", applied, (robot.nv,))
    if guess is not None:
        _check_shape("guess.tau", guess.tau, (robot.na,))
        _check_shape("guess.force", guess.force, (len(guess.keys), 3))
    if preferred is not None:
        _check_shape("preferred", preferred, (len(contacts.keys), 3))
    _check_contact_shapes(contacts)
    field, row = _first_not_finite(state.q, state.v, q_ddot, _NONE if applied is None else applied)
    if field >= 0:
        raise InputError(f"{FIELDS[field]}[{row}]", "expected a finite number")
    for start in robot.quaternions:
        length = float(np.linalg.norm(state.q[start : start + 4]))
        if not abs(length - 1.0) <= UNIT:
            raise InputError(f"q[{start}:{start + 4}]", f"expected a unit quaternion, got length {length:.6g}")
    flaw, row = _contact_flaw(
        contacts.points, contacts.normals, contacts.tangents, contacts.mu, contacts.gaps, contacts.bodies, contacts.others,
        len(robot.parents),
    )  # fmt: skip
    if flaw:
        name, message = OF_CONTACTS[flaw]
        raise InputError(f"contacts.{name}[{row}]", f"{message}, got {getattr(contacts, name)[row]}")


def _check_contact_shapes(contacts: ContactSet) -> None:
    n = len(contacts.keys)
    for name in ("points", "normals", "tangents"):
        _check_shape(f"contacts.{name}", getattr(contacts, name), (n, 3))
    for name in ("mu", "gaps"):
        _check_shape(f"contacts.{name}", getattr(contacts, name), (n,))
    for name in ("bodies", "others"):
        _check_shape(f"contacts.{name}", getattr(contacts, name), (n,), np.dtype(np.int64))


_FLOAT64 = np.dtype(np.float64)


def _check_shape(field: str, value: Array, shape: tuple[int, ...], dtype: np.dtype = _FLOAT64) -> None:
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != dtype:
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(field, f"expected an array {dtype} {shape}, got {got}")


@compiled
def _first_not_finite(q: Array, v: Array, q_ddot: Array, applied: Array) -> tuple[int, int]:
    """The first of these that is not finite and where; −1 when all are."""
    for field, values in enumerate((q, v, q_ddot, applied)):
        for i in range(len(values)):
            if not np.isfinite(values[i]):
                return field, i
    return -1, 0


@compiled
def _contact_flaw(points, normals, tangents, mu, gaps, bodies, others, joints):
    """What is wrong with the first contact with which something is, as a key of `OF_CONTACTS`, and its row; 0 for nothing."""
    for i in range(len(mu)):
        n2, s2, across = 0.0, 0.0, 0.0
        for c in range(3):
            if not np.isfinite(points[i, c]):
                return 1, i
            n2 += normals[i, c] * normals[i, c]
            s2 += tangents[i, c] * tangents[i, c]
            across += normals[i, c] * tangents[i, c]
        if not abs(n2 - 1.0) <= 2.0 * UNIT:
            return 2, i
        if not (abs(s2 - 1.0) <= 2.0 * UNIT and abs(across) <= UNIT):
            return 3, i
        if not mu[i] >= 0.0:
            return 4, i
        if not np.isfinite(gaps[i]):
            return 5, i
        if not (0 <= bodies[i] < joints and 0 <= others[i] < joints and bodies[i] != others[i]):
            return 6, i
    return 0, 0
