"""Contact tasks: linear equations A f = asked for the contact forces f, rows S, T, N of each contact (3n)."""

from collections.abc import Hashable, Sequence

import numpy as np

from idyn.errors import InputError, nearest
from idyn.library.kernels import compiled
from idyn.model.robot import Robot
from idyn.model.so3 import cross
from idyn.solvers.linalg import copy, dot
from idyn.tasks.motion import NORMAL, PRESSURE, VECTOR, Place, Task
from idyn.tasks.read import Numbers
from idyn.terms.stages import Given
from idyn.types import Array


class ContactTask(Task, frozen=True, kw_only=True):
    """Fields of all contact tasks. Their rows are divided by the mass of the robot, so that weights compare with those of
    accelerations.

    contacts: key, or keys
    """

    contacts: str | Sequence[str]

    SELECTS = "contacts"

    def kind(self) -> int:
        """Return the kind of the equations, see `idyn.tasks.motion.PYTHON`. Raises InputError."""
        raise NotImplementedError

    def contact_keys(self) -> tuple[str, ...]:
        """Return the keys of the contacts."""
        return (self.contacts,) if isinstance(self.contacts, str) else tuple(self.contacts)

    def structure(self, robot: Robot) -> Hashable:
        return self.kind(), len(self.contact_keys())

    def place(self, robot: Robot) -> Place:
        which = np.zeros(len(self.contact_keys()), np.int64)
        return Place(self.kind(), which, len(which))

    def rows(self, present: tuple[str, ...]) -> Array:
        """Return the indices of the contacts among those that are present (k). Raises InputError for others and for none."""
        keys = self.contact_keys()
        if not keys:
            raise InputError("contacts", "expected at least one contact key")
        for key in keys:
            if key not in present:
                raise InputError("contacts", f"expected keys of present contacts, got '{key}'{nearest(key, present)}")
        return np.array([present.index(key) for key in keys], np.int64)


class ForceTask(ContactTask, frozen=True, kw_only=True):
    """Sum of the forces of some contacts on their first bodies; exactly one of `normal` and `force` is given.

    normal: sum of the normal forces [N], a number or an array of one; force: sum of the forces in the world [N] (3)
    """

    normal: float | Numbers | None = None
    force: Numbers | None = None

    TARGETS = (("normal", 1), ("force", 3))

    def label(self) -> str:
        return self.name or f"force of {', '.join(self.contact_keys())}"

    def count(self, robot: Robot) -> int:
        return 3 if self.normal is None else 1

    def kind(self) -> int:
        if (self.normal is None) == (self.force is None):
            raise InputError("normal", "expected exactly one of `normal` and `force`")
        return VECTOR if self.normal is None else NORMAL


class CenterOfPressureTask(ContactTask, frozen=True, kw_only=True):
    """Centre of pressure of contacts on a common plane: Σ f_N (x − point) has no part along the plane.

    contacts: keys, such as the corners of a sole; point: in the world [m] (3)
    """

    point: Numbers

    TARGETS = (("point", 3),)

    def label(self) -> str:
        return self.name or f"centre of pressure of {', '.join(self.contact_keys())}"

    def count(self, robot: Robot) -> int:
        return 2

    def kind(self) -> int:
        if self.point is None:
            raise InputError("point", "expected 3 finite numbers, got None")
        return PRESSURE


@compiled
def fill_forces_of(g: Given, kind: int, which: Array, given: tuple[Array, Array], out: tuple[Array, Array]) -> None:
    """Fill the equations A f = asked of a contact task, which are zeros.

    kind: `NORMAL`, `VECTOR` or `PRESSURE`; which: the contacts (k); given: (target (1 or 3), origin [m] (3))
    out: (A (r, 3n), asked (r))
    """
    (target, origin), (A, asked) = given, out
    if kind != PRESSURE:
        copy(target, asked)
    s0, n0, arm = g.tangents[which[0]], g.normals[which[0]], np.empty(3)
    t0 = cross(n0, s0)
    for i in which:
        s, n = g.tangents[i], g.normals[i]
        if kind == NORMAL:
            A[0, 3 * i + 2] = 1.0
        elif kind == VECTOR:  # s, t = n × s, n
            t = cross(n, s)
            for c in range(3):
                A[c, 3 * i], A[c, 3 * i + 1], A[c, 3 * i + 2] = s[c], t[c], n[c]
        else:  # (x − point) along s and t of the first contact
            for c in range(3):
                arm[c] = g.points[i, c] + origin[c] - target[c]
            A[0, 3 * i + 2], A[1, 3 * i + 2] = dot(s0, arm), arm[0] * t0[0] + arm[1] * t0[1] + arm[2] * t0[2]
