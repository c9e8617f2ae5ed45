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
    q, n = state.q, len(contacts.keys)
    _check_shapes(
        (
            ("q", q, (robot.nq,)),
            ("v", state.v, (robot.nv,)),
            ("q_ddot", q_ddot, (robot.na,)),
            ("applied", _NONE if applied is None else applied, (0,) if applied is None else (robot.nv,)),
            ("preferred", _NONE if preferred is None else preferred, (0,) if preferred is None else (n, 3)),
            ("guess.tau", _NONE if guess is None else guess.tau, (0,) if guess is None else (robot.na,)),
            ("guess.force", _NONE if guess is None else guess.force, (0,) if guess is None else (len(guess.keys), 3)),
            ("contacts.points", contacts.points, (n, 3)),
            ("contacts.normals", contacts.normals, (n, 3)),
            ("contacts.tangents", contacts.tangents, (n, 3)),
            ("contacts.mu", contacts.mu, (n,)),
            ("contacts.gaps", contacts.gaps, (n,)),
        ),
        _FLOAT64,
    )
    _check_shapes((("contacts.bodies", contacts.bodies, (n,)), ("contacts.others", contacts.others, (n,))), _INT64)
    field, row = _first_not_finite(q, state.v, q_ddot, _NONE if applied is None else applied)
    if field >= 0:
        raise InputError(f"{FIELDS[field]}[{row}]", "expected a finite number")
    for start in robot.quaternions:
        x, y, z, w = q[start : start + 4].tolist()
        square = x * x + y * y + z * z + w * w
        if not abs(square - 1.0) <= 2.0 * UNIT:
            raise InputError(f"q[{start}:{start + 4}]", f"expected a unit quaternion, got length {square**0.5:.6g}")
    flaw, row = _contact_flaw(
        contacts.points, contacts.normals, contacts.tangents, contacts.mu, contacts.gaps, contacts.bodies, contacts.others,
        len(robot.parents),
    )  # fmt: skip
    if flaw:
        name, message = OF_CONTACTS[flaw]
        raise InputError(f"contacts.{name}[{row}]", f"{message}, got {getattr(contacts, name)[row]}")


_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


def _check_shapes(arrays: tuple[tuple[str, Array, tuple[int, ...]], ...], dtype: np.dtype) -> None:
    for field, value, shape in arrays:
        if not isinstance(value, np.ndarray) or value.shape != shape or (value.dtype is not dtype and value.dtype != dtype):
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
