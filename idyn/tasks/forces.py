"""Contact tasks: linear equations A f = asked for the contact forces f, rows S, T, N of each contact (3n)."""

from collections.abc import Sequence

import numpy as np

from idyn.errors import InputError, nearest
from idyn.model.robot import Robot
from idyn.tasks.motion import Rows, Task
from idyn.tasks.read import Numbers
from idyn.terms.inputs import numbers
from idyn.types import Array, ContactSet


class ContactTask(Task, frozen=True):
    """Fields of all contact tasks. Their rows are divided by the mass of the robot, so that weights compare with those of
    accelerations."""


class ForceTask(ContactTask, frozen=True, kw_only=True):
    """Sum of the forces of some contacts on their first bodies; exactly one of `normal` and `force` is given.

    contacts: key, or keys
    normal: sum of the normal forces [N], a number or an array () that may change; force: sum of the forces in the world [N] (3)
    """

    contacts: str | Sequence[str]
    normal: float | Array | None = None
    force: Numbers | None = None

    def label(self) -> str:
        return self.name or f"force of {', '.join(_keys(self.contacts))}"

    def count(self, robot: Robot) -> int:
        return 3 if self.normal is None else 1

    def fill(self, given: ContactSet, out: Rows) -> None:
        which = _indices(given, self.contacts)
        if (self.normal is None) == (self.force is None):
            raise InputError("normal", "expected exactly one of `normal` and `force`")
        if self.normal is not None:
            out.A[0, 3 * which + 2] = 1.0
            out.asked[:] = _finite("normal", [self.normal], 1)
            return
        for i in which.tolist():
            out.A[:, 3 * i : 3 * i + 3] = contact_axes(given, i)
        out.asked[:] = _finite("force", self.force, 3)


class CenterOfPressureTask(ContactTask, frozen=True, kw_only=True):
    """Centre of pressure of contacts on a common plane: Σ f_N (x − point) has no part along the plane.

    contacts: keys, such as the corners of a sole; point: in the world [m] (3)
    """

    contacts: Sequence[str]
    point: Numbers

    def label(self) -> str:
        return self.name or f"centre of pressure of {', '.join(_keys(self.contacts))}"

    def count(self, robot: Robot) -> int:
        return 2

    def fill(self, given: ContactSet, out: Rows) -> None:
        which = _indices(given, self.contacts)
        point = _finite("point", self.point, 3)
        out.A[:, 3 * which + 2] = contact_axes(given, int(which[0]))[:, :2].T @ (given.points[which] - point).T


def contact_axes(contacts: ContactSet, i: int) -> Array:
    """Return the axes s, t, n of contact i as columns, in the world (3, 3)."""
    (a, b, c), (x, y, z) = contacts.tangents[i].tolist(), contacts.normals[i].tolist()
    return np.array([[a, y * c - z * b, x], [b, z * a - x * c, y], [c, x * b - y * a, z]])  # t = n × s


def _keys(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _indices(contacts: ContactSet, given: str | Sequence[str]) -> Array:
    """Return the rows of contacts by key (k). Raises InputError for unknown keys and for none."""
    keys = _keys(given)
    if not keys:
        raise InputError("contacts", "expected at least one contact key")
    for key in keys:
        if key not in contacts.keys:
            raise InputError("contacts", f"expected keys of present contacts, got '{key}'{nearest(key, contacts.keys)}")
    return np.array([contacts.keys.index(key) for key in keys], np.int64)


def _finite(field: str, given: object, size: int) -> Array:
    array = numbers(field, given)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(field, f"expected {size} finite number{'s' if size > 1 else ''}, got {given!r}")
    return array
