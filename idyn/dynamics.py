"""The robot and its contacts at one instant, computed once and handed to everything that needs it.

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h)          J: rows S, T, N for each contact

`evaluate` fills a `Dynamics`; of those who predict nobody else works out a contact Jacobian, but for the certificate, which
does so on purpose.
"""

from typing import Any, ClassVar

import numpy as np

from idyn.compiled import INDICES, MASK, MATRIX, VECTOR, ArrayRecord, compiled, new_record
from idyn.ground import Ground, ground_numbers, in_contact_rows, unpacked
from idyn.inputs import check, contact_flaw, finite, upright, well_shaped
from idyn.robot import Robot
from idyn.types import Array, ContactSet, State

MOST_KEPT = 32
"""Numbers of contacts for which a robot keeps a record."""


class Dynamics(ArrayRecord):
    """Arrays of one robot with n contacts; owned, so they stay true until the record is filled again.

    The robot   parents (njoints), dof_joint (nv), support (njoints, nv), u (nu), a (na): see `Robot`; tau_max (na) [N·m]
    The state   v (nv), M (nv, nv), h (nv), axes (nv, 6): see `idyn.types.DynamicsTerms`; h without what is `applied`
    Contacts    bodies, others, points, normals, tangents, mu, gaps: see `idyn.types.ContactSet`
    What follows
        J: contact Jacobian, rows S, T, N for each contact on the relative velocity of its two bodies (3n, nv)
        asked: demanded joint accelerations [rad/s²] (na)
        last: p⁻, the impulses of the last tick in these rows, as far as the ground remembers them [N·s] (3n)
        numbers: what the ground is believed to do, `idyn.ground.GroundNumbers` (5); ground, dt [s]: the same for Python
    Of a demand, filled by `idyn.reduction.reduce`
        met: that demand [rad/s²] (na);  L: Cholesky factor of M_uu (nu, nu)
        v_free: v⁺ without contact impulses, v_u⁰ and the prescribed v_a⁺ (nv)
        Y (3n, nu), b (3n), energy (3n): see `idyn.reduction.Reduced`
    """

    field_types: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("parents", "dof_joint", "u", "a", "bodies", "others"), INDICES),
        **dict.fromkeys(
            ("v", "h", "mu", "gaps", "last", "numbers", "v_free", "b", "energy", "tau_max", "asked", "met"), VECTOR
        ),
        **dict.fromkeys(("M", "axes", "points", "normals", "tangents", "J", "L", "Y"), MATRIX),
        "support": MASK,
    }

    M: Array
    h: Array
    v: Array
    axes: Array
    J: Array
    mu: Array
    last: Array
    L: Array
    v_free: Array
    Y: Array
    b: Array
    energy: Array
    tau_max: Array
    asked: Array
    met: Array
    ground: Ground
    dt: float

    def __init__(self, robot: Robot, n: int) -> None:
        """Room for n contacts of a robot."""
        nv, nu = robot.nv, robot.nu
        self.fields = self.begin(_blank)
        self.put(
            _robot,
            robot.tree.parents,
            robot.tree.dof_joint,
            robot.tree.support,
            robot.tree.u,
            robot.tree.a,
            robot.limits.tau_max,
        )
        self.put(_state, np.empty(nv), np.empty((nv, nv)), np.empty(nv), np.empty((nv, 6)), np.empty(5))
        self.put(_touch, np.empty(n, np.int64), np.empty(n, np.int64), *np.empty((3, n, 3)), *np.empty((2, n)))
        self.put(_room, np.empty((3 * n, nv)), np.zeros(3 * n), np.empty((3 * n, nu)), *np.empty((2, 3 * n)))
        self.put(_demand, np.zeros(robot.na), np.zeros(robot.na), np.empty((nu, nu)), np.empty(nv))


TYPE = Dynamics.TYPE


def evaluate(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    *,
    dt: float,
    ground: Ground,
    applied: Array | None = None,
    into: Dynamics | None = None,
) -> Dynamics:
    """M, h, J and all that contacts have to do with them at one instant, for predictions over `dt` [s]. Raises InputError,
    naming the field, for a state or contacts that are malformed.

    applied: generalised force that acts besides gravity, contacts and torques [N, N·m] (nv)
    into: a record of this robot and as many contacts, whose contents are lost; a new one without. It remembers no impulses.
    """
    if applied is not None or not well_shaped(robot, state, contacts):
        check(robot, state, contacts, applied)
    d = Dynamics(robot, len(contacts.keys)) if into is None else into
    d.ground, d.dt = ground, dt
    terms, c = robot.terms(state.q, state.v), contacts
    h = terms.h if applied is None else terms.h - applied
    sound = _move(d.fields, state.v, terms.M, h, terms.axes, ground_numbers(ground, dt), state.q, robot.tree.unit_spans)
    if not (sound and _place(d.fields, c.bodies, c.others, c.points, c.normals, c.tangents, c.mu, c.gaps)):
        check(robot, state, contacts, applied)
        raise AssertionError("a check that found nothing")
    return d


@compiled
def remember(d, force):
    """Contact forces in the world [N] (n, 3) as the impulses of the last tick; none when they are no numbers."""
    in_contact_rows(force, d.tangents, d.normals, unpacked(d.numbers).dt, d.last)
    if not finite(d.last):
        d.last[:] = 0.0


def kept(robot: Robot, n: int) -> Dynamics:
    """The robot's own record for n contacts: steady ticks allocate nothing."""
    records = robot.scratch
    known = records.get(n)
    if not isinstance(known, Dynamics) or known.tau_max is not robot.limits.tau_max:
        if len(records) >= MOST_KEPT:
            records.clear()
        records[n] = known = Dynamics(robot, n)
    return known


@compiled
def _blank():
    return new_record(TYPE)


@compiled
def _robot(d, parents, dof_joint, support, u, a, tau_max):
    d.parents, d.dof_joint, d.support, d.u, d.a, d.tau_max = parents, dof_joint, support, u, a, tau_max


@compiled
def _state(d, v, M, h, axes, numbers):
    d.v, d.M, d.h, d.axes, d.numbers = v, M, h, axes, numbers


@compiled
def _touch(d, bodies, others, points, normals, tangents, mu, gaps):
    d.bodies, d.others, d.points, d.normals, d.tangents, d.mu, d.gaps = bodies, others, points, normals, tangents, mu, gaps


@compiled
def _room(d, J, last, Y, b, energy):
    d.J, d.last, d.Y, d.b, d.energy = J, last, Y, b, energy


@compiled
def _demand(d, asked, met, L, v_free):
    d.asked, d.met, d.L, d.v_free = asked, met, L, v_free


@compiled
def _move(d, v, M, h, axes, numbers, q, unit_spans):
    """Copies the state; whether it is sound."""
    d.v[:], d.M[:], d.h[:], d.axes[:], d.numbers[:] = v, M, h, axes, numbers
    d.last[:] = 0.0
    return finite(q) and finite(v) and upright(q, unit_spans)


@compiled
def _place(d, bodies, others, points, normals, tangents, mu, gaps):
    """Copies the contacts and fills J; whether they are sound."""
    d.bodies[:], d.others[:], d.points[:], d.normals[:], d.tangents[:] = bodies, others, points, normals, tangents
    d.mu[:], d.gaps[:] = mu, gaps
    flaw, _ = contact_flaw(d, len(d.parents))
    if flaw == 0:
        _jacobian(d)
    return flaw == 0


@compiled
def _jacobian(d):
    """Direction e at point x moves with e · (v_O + ω × x) = [e, x × e] · (v_O, ω)."""
    frame, screw = np.empty((3, 3)), np.empty(6)
    for i in range(len(d.gaps)):
        s, n, x = d.tangents[i], d.normals[i], d.points[i]
        frame[0], frame[2] = s, n
        frame[1, 0], frame[1, 1], frame[1, 2] = n[1] * s[2] - n[2] * s[1], n[2] * s[0] - n[0] * s[2], n[0] * s[1] - n[1] * s[0]
        for r in range(3):
            e = frame[r]
            screw[:3] = e
            screw[3], screw[4], screw[5] = x[1] * e[2] - x[2] * e[1], x[2] * e[0] - x[0] * e[2], x[0] * e[1] - x[1] * e[0]
            for j in range(len(d.v)):
                sign = int(d.support[d.bodies[i], j]) - int(d.support[d.others[i], j])
                along = 0.0
                if sign != 0:
                    for c in range(6):
                        along += screw[c] * d.axes[j, c]
                d.J[3 * i + r, j] = sign * along
