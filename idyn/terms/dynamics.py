"""The robot and its contacts at one instant, computed once and handed to everything that needs it.

    M (v⁺ − v) = Jᵀ p + dt (Pᵀ τ − h)          J: rows S, T, N for each contact

`evaluate` fills a `Dynamics`. Nobody else computes the contact Jacobian of a prediction but the certificate, which computes its
own on purpose.
"""

from typing import Any, ClassVar

import numpy as np

from idyn.contact.ground import Ground
from idyn.errors import InputError
from idyn.jit.compiled import (
    CUBE,
    INDICES,
    MASK,
    MATRIX,
    REAL,
    SPANS,
    VECTOR,
    WHOLE,
    only,
    several,
)
from idyn.jit.records import ArrayRecord
from idyn.model.robot import Robot
from idyn.terms.filling import fill
from idyn.terms.inputs import check, contiguous
from idyn.types import Array, ContactSet, State

MOST_KEPT = 32
"""Numbers of contacts for which a robot keeps a record."""

Arrays = tuple[Array, ...]

NOTHING, NO_FORCES = np.zeros(0), np.zeros((0, 3))
"""Without a force applied; without a last tick."""


class Dynamics(ArrayRecord):
    """Arrays of one robot with n contacts; owned, so they stay true until the record is filled again.

    The robot   parents (njoints), dof_joint (nv), support (njoints, nv), u (nu), a (na), unit_spans: see
        `idyn.model.tree.Tree`; nq;
        tau_max (na) [N·m]; own_M, own_h, own_axes: views of its scratch, which Pinocchio fills
    The state   v (nv), M (nv, nv), h (nv), axes (nv, 6): see `idyn.types.DynamicsTerms`; h without what is applied
    Contacts    bodies, others, points, normals, tangents, mu, gaps: see `idyn.types.ContactSet`
    The ground  noise, recovery_speed, touching, independent: see `idyn.contact.ground.Ground`; dt [s]; keep: share of a
        contact's
        velocity that may be left after dt; rho: T_p/dt. For Python also `ground` itself
    steady: see `idyn.prediction.steady`, None before the first steady tick; closures: how many (m)
    What follows
        J: contact Jacobian, rows S, T, N for each contact on the relative velocity of its two bodies (3n, nv)
        asked: demanded joint accelerations [rad/s²] (na)
        last: p⁻, the impulses of the last tick in these rows, as far as the ground remembers them [N·s] (3n)
    Closed chains of m closures, see `idyn.model.closures`
        loops: joints (m, 2); ends: points in the world [m] (m, 2, 3); G (3m, nv), rate (3m) [m/s]
    Of a demand, filled by `idyn.terms.reduction.reduce`
        met: that demand [rad/s²] (na);  L: Cholesky factor of M_uu (nu, nu)
        v_free: v⁺ without contact impulses, v_u⁰ and the prescribed v_a⁺ (nv)
        Y (3n, nu), b (3n), energy (3n): see `idyn.terms.reduction.Reduced`
        C (3n, 3m), bound: J̃ (3n, nv), J itself without closures; closing_free: λ₀ (3m)
        closing: λ, the closures' impulses on their first bodies in the world [N·s] (3m), filled by
        `idyn.terms.reduction.recover`
    """

    field_types: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("parents", "dof_joint", "u", "a", "bodies", "others"), INDICES),
        **dict.fromkeys(("v", "h", "own_h", "mu", "gaps", "last", "v_free", "b", "energy", "tau_max", "asked", "met"), VECTOR),
        **dict.fromkeys(("M", "axes", "own_M", "own_axes", "points", "normals", "tangents", "J", "L", "Y"), MATRIX),
        **dict.fromkeys(("rate", "closing_free", "closing"), VECTOR),
        **dict.fromkeys(("G", "C", "bound"), MATRIX),
        "support": MASK,
        **dict.fromkeys(("unit_spans", "loops"), SPANS),
        "ends": CUBE,
        "nq": WHOLE,
        **dict.fromkeys(("noise", "recovery_speed", "keep", "rho", "dt", "touching", "independent"), REAL),
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
    G: Array
    bound: Array
    ends: Array
    closing: Array
    ground: Ground | None = None
    independent: float
    steady: Any = None
    closures: int
    dt: float

    def __init__(self, robot: Robot, n: int) -> None:
        """Room for n contacts of a robot."""
        tree, nv, nu, own = robot.tree, robot.nv, robot.nu, robot.terms(robot.neutral(), np.zeros(robot.nv))
        only(fill, TYPE, *GIVEN, MATRIX)
        self.put(parents=tree.parents, dof_joint=tree.dof_joint, support=tree.support, u=tree.u, a=tree.a)
        self.put(unit_spans=tree.unit_spans, nq=robot.nq, tau_max=robot.limits.tau_max)
        self.put(own_M=own.M.T, own_h=own.h, own_axes=own.axes)
        self.put(v=np.empty(nv), M=np.empty((nv, nv)), h=np.empty(nv), axes=np.empty((nv, 6)))
        self.put(bodies=np.empty(n, np.int64), others=np.empty(n, np.int64), mu=np.empty(n), gaps=np.empty(n))
        self.put(points=np.empty((n, 3)), normals=np.empty((n, 3)), tangents=np.empty((n, 3)))
        self.put(J=np.empty((3 * n, nv)), last=np.zeros(3 * n), asked=np.zeros(robot.na), met=np.zeros(robot.na))
        self.put(L=np.empty((nu, nu)), v_free=np.empty(nv), Y=np.empty((3 * n, nu)), b=np.empty(3 * n), energy=np.empty(3 * n))
        self.closures = m = len(robot.closures.keys)
        self.put(loops=robot.closures.joints, ends=np.empty((m, 2, 3)), G=np.empty((3 * m, nv)), rate=np.zeros(3 * m))
        self.put(C=np.empty((3 * n, 3 * m)), bound=np.empty((3 * n, nv)) if m else self.J)
        self.put(closing=np.zeros(3 * m), closing_free=np.zeros(3 * m))

    def believe(self, ground: Ground, dt: float) -> None:
        """What the ground does within the next dt [s]."""
        if self.ground is not ground or self.dt != dt:
            self.put(noise=ground.noise, recovery_speed=ground.recovery_speed, touching=ground.touching)
            self.put(independent=ground.independent, keep=ground.keeps(dt), rho=ground.memory / dt, dt=dt)
            self.ground = ground


TYPE = Dynamics.TYPE
GIVEN = (
    several(VECTOR, 3),
    several(INDICES, 2),
    several(MATRIX, 3),
    several(VECTOR, 2),
)
"""What `fill_arguments` gives."""


def evaluate(
    robot: Robot,
    state: State,
    contacts: ContactSet,
    *,
    dt: float,
    ground: Ground,
    applied: Array | None = None,
    last: Array | None = None,
    into: Dynamics | None = None,
) -> Dynamics:
    """M, h, J and all that contacts have to do with them at one instant, for predictions over `dt` [s]. Raises InputError,
    naming the field, for a state or contacts that are malformed.

    applied: generalised force that acts besides gravity, contacts and torques [N, N·m] (nv)
    last: the contacts' forces of the last tick, which the ground remembers, in the world [N] (n, 3); none: zero
    into: a record of this robot and as many contacts, whose contents are lost; a new one without
    """
    d = Dynamics(robot, len(contacts.keys)) if into is None else into
    d.believe(ground, dt)
    if not _filled(d, robot, state, contacts, applied, last):
        check(robot, state, contacts, applied)
        if last is not None and np.shape(last) != (len(contacts.keys), 3):
            raise InputError("last", f"expected shape {(len(contacts.keys), 3)}, got {np.shape(last)}")
        state, contacts = contiguous(state), contiguous(contacts)
        applied, last = (None if given is None else np.array(given, np.float64, order="C") for given in (applied, last))
        if not _filled(d, robot, state, contacts, applied, last):
            raise AssertionError("`fill` refused data that `check` accepts")
    return d


def _filled(d: Dynamics, robot: Robot, state: State, contacts: ContactSet, applied: Array | None, last: Array | None) -> bool:
    """Whether these data could be filled in; what is wrong with them otherwise is for others to say."""
    given = fill_arguments(state, contacts, applied)
    try:
        if not all(array.dtype.isnative for arrays in given for array in arrays):
            return False  # numba would take the bytes of each number as they are
        robot.terms(state.q, state.v)
        if d.closures:
            robot.closure_ends(d.ends)
        return bool(fill(d.fields, *given, NO_FORCES if last is None else last))
    except (AttributeError, TypeError, ValueError):  # not the arrays that Pinocchio and compiled code take
        return False


def fill_arguments(state: State, contacts: ContactSet, applied: Array | None) -> tuple[Arrays, Arrays, Arrays, Arrays]:
    """State, force applied and contacts as `fill` takes them: arrays of one type together."""
    c = contacts
    motion = state.q, state.v, NOTHING if applied is None else applied
    return motion, (c.bodies, c.others), (c.points, c.normals, c.tangents), (c.mu, c.gaps)


def record_for(robot: Robot, n: int) -> Dynamics:
    """The robot's own record for n contacts: steady ticks allocate nothing."""
    records = robot.scratch
    known = records.get(n)
    if not isinstance(known, Dynamics) or known.tau_max is not robot.limits.tau_max:
        if len(records) >= MOST_KEPT:
            records.clear()
        records[n] = known = Dynamics(robot, n)
    return known
