"""The records that pass between the stages. Frozen; float64; validated where they enter and trusted afterwards.

Symbols: nq, nv configuration and velocity dimensions; na actuated, nu unactuated velocities (na + nu = nv);
n contacts. World frame unless a name says otherwise. `p` are impulses over one period [N·s], force = p/dt.
"""

from enum import StrEnum

import msgspec
import numpy as np

from idyn.status import Status

Array = np.ndarray


class Record(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Base of all records: immutable, built by keyword, about 0.1 µs each."""


class State(Record, frozen=True):
    """What the robot measured at one instant.

    q: configuration, free flyer as position then quaternion xyzw (nq). As Pinocchio has it, but for continuous joints: theirs
        is one angle that counts its turns, not cos and sin
    v: velocity, free flyer linear then angular in the body frame [m/s, rad/s] (nv)
    """

    q: Array
    v: Array


class ContactSet(Record, frozen=True):
    """Contacts at one instant, one row each.

    bodies: joint index of the body that is pushed by a positive normal impulse (n)
    others: joint index of the second body, 0 for the environment (n)
    points: contact point [m] (n, 3)
    normals: unit normal, from the second body into the first (n, 3)
    tangents: unit first tangent s; the second is t = n × s, so that s × t = n (n, 3)
    mu: friction coefficient, may be inf (n)
    gaps: signed distance φ, negative when penetrating [m] (n)
    keys: a name for each contact that stays the same from tick to tick (n)
    """

    bodies: Array
    others: Array
    points: Array
    normals: Array
    tangents: Array
    mu: Array
    gaps: Array
    keys: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Array) -> "ContactSet":
        """Some of the contacts: those for which a mask (n) holds, or those with the given indices, in their order."""
        if rows.dtype == np.bool_:
            if np.count_nonzero(rows) == len(rows):
                return self
            rows = rows.nonzero()[0]
        return ContactSet(
            bodies=self.bodies.take(rows),
            others=self.others.take(rows),
            points=self.points.take(rows, 0),
            normals=self.normals.take(rows, 0),
            tangents=self.tangents.take(rows, 0),
            mu=self.mu.take(rows),
            gaps=self.gaps.take(rows),
            keys=tuple(self.keys[i] for i in rows.tolist()),
        )

    def within(self, reach: float) -> "ContactSet":
        """Those of the contacts whose gaps are at most that [m]."""
        return self if max(self.gaps.tolist(), default=reach) <= reach else self.take(self.gaps <= reach)

    def join(self, other: "ContactSet") -> "ContactSet":
        """These contacts, and after them the other ones."""
        return ContactSet(
            bodies=np.concatenate([self.bodies, other.bodies]),
            others=np.concatenate([self.others, other.others]),
            points=np.concatenate([self.points, other.points]),
            normals=np.concatenate([self.normals, other.normals]),
            tangents=np.concatenate([self.tangents, other.tangents]),
            mu=np.concatenate([self.mu, other.mu]),
            gaps=np.concatenate([self.gaps, other.gaps]),
            keys=self.keys + other.keys,
        )


class DynamicsTerms(Record, frozen=True):
    """M, h and the joint axes at one state: views of the robot's scratch, valid until the next `Robot.terms`.

    M: joint-space inertia, symmetric (nv, nv)
    h: Coriolis, centrifugal and gravity forces [N, N·m] (nv)
    axes: unit velocity of each degree of freedom as a spatial velocity (linear at the world origin, angular) (nv, 6)
    """

    M: Array
    h: Array
    axes: Array


class Kinematics(DynamicsTerms, frozen=True):
    """A robot placed at one state: what Pinocchio computes of it, once. Stands for the `State` wherever one is expected.

    q (nq), v (nv): the state
    placements: rotation by columns, then origin of each joint in the world (njoints, 12)
    ends: points of the closures in the world [m] (m, 2, 3)
    """

    q: Array
    v: Array
    placements: Array
    ends: Array


class Selection(StrEnum):
    """Which of the equivalent impulses to take (MATHEMATICS §3.5)."""

    OFF = "off"  # the law's own, basic for the pivoting laws
    TORQUE = "torque"  # min ‖τ‖²
    TORQUE_CHANGE = "torque-change"  # min ‖τ − τ_prev‖²
    IMPULSE_CHANGE = "impulse-change"  # min ‖p − p_prev‖²
    FORCE = "force"  # min ‖p/dt − f‖², f being the preferred forces, 0 without: no friction that nothing needs


class Consistency(StrEnum):
    """What happens to a demand that no contact impulse can realise (MATHEMATICS §4)."""

    OFF = "off"  # the paper's literal path
    PROJECT = "project"  # when the law finds no solution: the nearest demand that has one
    STICK = "stick"  # beforehand: the nearest demand under which no touching contact is dragged along; it may be lifted
    HOLD = "hold"  # beforehand: the nearest demand under which every touching contact stays where it is


class Demand(Record, frozen=True):
    """What the joints are to do.

    q_ddot: accelerations [rad/s²] (na)
    change: how far that moves the joint velocities from what was asked, max norm [rad/s]; 0 for the demand as it was made
    """

    q_ddot: Array
    change: float = 0.0


class Guess(Record, frozen=True):
    """What one tick leaves to the next: warm start, and the previous answer for the selection.

    law: the law whose basis it is
    keys: contacts of the previous tick
    basis: the law's own encoding of where to begin, as a rule its complementary basis, one row per contact (n, ·); the guess
        before's own array where that still holds
    tau: previous torque [N·m] (na)
    force: previous contact forces in world coordinates [N] (n, 3)
    """

    law: str
    keys: tuple[str, ...]
    basis: Array
    tau: Array
    force: Array

    def carried_over(self, rows: Array, keys: tuple[str, ...]) -> Array:
        """Of `basis` or `force` the rows of today's contacts (n, ·); zero for those that were not there."""
        if self.keys == keys:
            return rows
        before, carried = {key: i for i, key in enumerate(self.keys)}, np.zeros((len(keys), rows.shape[1]), rows.dtype)
        for i, key in enumerate(keys):
            if key in before:
                carried[i] = rows[before[key]]
        return carried


class Residuals(msgspec.Struct, frozen=True, gc=False):
    """The certificate, computed from the problem data by code no solver shares (MATHEMATICS §5.4).

    dynamics: ‖M(v⁺−v) − Jᵀp − dt(Pᵀτ − h)‖∞ [N·s, N·m·s]
    demand: ‖P v⁺ − v_a − dt q̈‖∞ for the demand that was met, and how far that is from the one asked for beyond the reported
        change [rad/s]
    complementarity: max |min(z, w)| over the law's own pairs [N·s or m/s]
    cone: how far an impulse is outside its friction cone or pulls [N·s]
    penetration: how fast a contact still closes beyond its allowance [m/s]
    slip: largest tangential speed that the law promised to be zero, or speed at which a closed chain comes apart [m/s]
    """

    dynamics: float
    demand: float
    complementarity: float
    cone: float
    penetration: float
    slip: float

    @property
    def worst(self) -> float:
        """The largest of them."""
        return max(self.dynamics, self.demand, self.complementarity, self.cone, self.penetration, self.slip)


class Prediction(Record, frozen=True):
    """What `predict` answers. `force` and `tau` are the guess's own arrays: copy them before you write into them.

    tau: joint torques [N·m] (na)
    force: contact forces on the first bodies, world coordinates [N] (n, 3)
    p: the same as impulses over dt, S, T, N for each contact [N·s] (3n)
    dt: the period they act in [s]
    v_plus: predicted velocity at the end of the period (nv)
    status: SOLVED when the law asked for answered, certified; OTHER_LAW when that in `law` did, certified, in its place;
        otherwise why the law asked for failed, and tau is of the last forces
    law, rung: which law answered, by which of its rungs
    iterations: pivots or QP iterations of that rung
    residuals: the certificate
    demand_change: how far the consistency step moved the demanded joint velocities, max norm [rad/s]
    torque_excess: how far the largest torque is beyond its limit [N·m]; 0 within
    force_excess: how far the largest contact force is beyond `Options.force_limit` [N]; 0 within
    null_dim: dimension of the contact impulses that move nothing
    closing: impulses of the robot's closures on their first bodies, in the world, x, y, z of each [N·s] (3m)
    guess: pass to the next call
    """

    tau: Array
    force: Array
    p: Array
    dt: float
    v_plus: Array
    status: Status
    law: str
    rung: str
    iterations: int
    residuals: Residuals
    demand_change: float
    torque_excess: float
    force_excess: float
    null_dim: int
    closing: Array
    guess: Guess

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the contacts, row by row."""
        return self.guess.keys

    @property
    def impulse(self) -> Array:
        """Contact impulses in world coordinates [N·s] (n, 3)."""
        return self.force * self.dt

    @property
    def normal_force(self) -> Array:
        """Contact forces along the normals [N] (n)."""
        return self.p[2::3] / self.dt
