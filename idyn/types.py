"""Records that pass between the stages and to users: frozen, float64 arrays, vectors in the world frame unless stated
otherwise. nq, nv: dimensions of configuration and velocity; na actuated, nu unactuated velocities (na + nu = nv); n
contacts. `p` are impulses over one period [N·s], force = p/dt."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
import numpy as np

from idyn.status import Status

WIDTH = 60  # maximum number of characters of a text, or of the entries of a tuple


def brief(value: object) -> str:
    """Return a short representation: the shape of an array, the beginning of a text or tuple, the size of a mapping."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    if type(value) is str:
        return repr(value if len(value) <= WIDTH else f"{value[:WIDTH]}…")
    return str(value)


def _tuple(entries: tuple[object, ...]) -> str:
    shown: list[str] = []
    for entry in entries:
        text = brief(entry)
        if shown and sum(map(len, shown)) + len(text) > WIDTH:
            shown.append(f"… {len(entries)} in all")
            break
        shown.append(text)
    return f"({', '.join(shown)})"


def span(values: np.ndarray) -> str:
    """Return the range of an array, such as `0.5…0.8`, or its value if all are equal."""
    if not np.size(values):
        return "-"
    low, high = f"{np.min(values):.3g}", f"{np.max(values):.3g}"
    return low if low == high else f"{low}…{high}"


def norm(vector: np.ndarray) -> str:
    """Return ‖vector‖ with three digits."""
    return f"{np.linalg.norm(vector):.3g}"


Array = np.ndarray

NO_MOMENTS = np.zeros((0, 3))


class Record(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """Base class of all records: immutable, keyword arguments only, constructed in about 0.1 µs."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={brief(getattr(self, name))}' for name in self.__struct_fields__)})"


class State(Record, frozen=True):
    """State of the robot at one instant.

    q: configuration as in Pinocchio; free flyer: position, then quaternion xyzw; a continuous joint, unlike Pinocchio's cos and
        sin, is one angle that counts turns (nq)
    v: velocity; free flyer: linear, then angular in the body frame [m/s, rad/s] (nv)
    """

    q: Array
    v: Array

    def __repr__(self) -> str:
        if np.ndim(self.q) != 1 or np.ndim(self.v) != 1:
            return Record.__repr__(self)
        return f"State(nq={len(self.q)}, nv={len(self.v)}, ‖v‖={norm(self.v)})"


class ContactSet(Record, frozen=True):
    """Contacts at one instant, one row for each contact.

    bodies: joint index of the first body, the one that a positive normal impulse pushes along the normal (n)
    others: joint index of the second body; 0: environment (n)
    points: contact points [m] (n, 3)
    normals: unit normals, from the second body into the first (n, 3)
    tangents: first unit tangents s; the second one is t = n × s, so that s × t = n (n, 3)
    mu: friction coefficients ≥ 0, inf: unlimited (n)
    gaps: signed distances φ, negative in penetration [m] (n)
    radii: radius of the sphere of the first body that rolls on the second one; 0 for points of the first body [m] (n)
    keys: names of the contacts, the same from tick to tick (n)
    """

    bodies: Array
    others: Array
    points: Array
    normals: Array
    tangents: Array
    mu: Array
    gaps: Array
    radii: Array
    keys: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"ContactSet(n={len(self)}, keys={brief(self.keys)}, gaps={span(self.gaps)} m, mu={span(self.mu)})"

    def take(self, rows: Array) -> "ContactSet":
        """Return the contacts that `rows` selects: a boolean mask (n), or indices in the order of the result."""
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
            radii=self.radii.take(rows),
            keys=tuple(self.keys[i] for i in rows.tolist()),
        )

    def within(self, reach: float) -> "ContactSet":
        """Return the contacts with gaps ≤ `reach` [m]; ∞: all, also those whose gap is NaN."""
        return self if reach == np.inf or max(self.gaps.tolist(), default=reach) <= reach else self.take(self.gaps <= reach)

    def join(self, other: "ContactSet") -> "ContactSet":
        """Return these contacts followed by those of `other`."""
        names = [name for name in self.__struct_fields__ if name != "keys"]
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return ContactSet(**joined, keys=self.keys + other.keys)


class DynamicsTerms(Record, frozen=True):
    """M, h and the joint axes at one state: views of the robot's buffers, valid until the next `Robot.terms`.

    M: joint-space inertia, symmetric (nv, nv)
    h: Coriolis, centrifugal and gravity forces [N, N·m] (nv)
    axes: spatial velocity per unit velocity of each degree of freedom: linear at the world origin, then angular (nv, 6)
    """

    M: Array
    h: Array
    axes: Array


class Kinematics(DynamicsTerms, frozen=True):
    """A state with the terms that Pinocchio computes from it. It is accepted in place of a `State`, and saves this computation.

    q (nq), v (nv): the state, see `State`
    placements: joint placements in the world: rotation matrix by columns, then origin [m] (njoints, 12)
    ends: the two points of each closure in the world [m] (m, 2, 3)
    """

    q: Array
    v: Array
    placements: Array
    ends: Array

    def __repr__(self) -> str:
        return f"Kinematics(nq={len(self.q)}, nv={len(self.v)}, njoints={len(self.placements)}, closures={len(self.ends)})"


class Selection(StrEnum):
    """Objective of the choice among equivalent impulses (MATHEMATICS §3.5)."""

    OFF = "off"  # no choice: the law's solution, which is a basic one of pivoting laws, and small with `coulomb` and four edges
    TORQUE = "torque"  # min ‖τ‖²
    TORQUE_CHANGE = "torque-change"  # min ‖τ − τ_prev‖²
    IMPULSE_CHANGE = "impulse-change"  # min ‖p − p_prev‖²
    FORCE = "force"  # min ‖p/dt − f‖², f: preferred forces; without them f = 0, which avoids unnecessary friction


class Consistency(StrEnum):
    """Treatment of demands that no contact impulse can realise (MATHEMATICS §4)."""

    OFF = "off"  # none, as in the paper
    PROJECT = "project"  # after the law has failed: the nearest demand with a solution
    STICK = "stick"  # before solving: the nearest demand under which no touching contact slips; contacts may lift
    HOLD = "hold"  # before solving: the nearest demand under which no touching contact slips or lifts


class Demand(Record, frozen=True):
    """Demanded joint accelerations, possibly projected.

    q_ddot: accelerations [rad/s²] (na)
    change: change of the joint velocities by the projection, max norm [rad/s]; 0: the original demand
    """

    q_ddot: Array
    change: float = 0.0


class Guess(Record, frozen=True):
    """Result of one tick that the next one starts from: basis for the warm start, torques and forces for the selection.

    law: name of the law that computed the basis
    keys: contact keys of the previous tick
    basis: start of the law's solver, usually its complementary basis, one row for each contact (n, ·). If the basis has not
        changed, this is the same array object as in the previous guess
    tau: torques of the previous tick [N·m] (na)
    force: contact forces of the previous tick in the world [N] (n, 3)
    """

    law: str
    keys: tuple[str, ...]
    basis: Array
    tau: Array
    force: Array

    def __repr__(self) -> str:
        return f"Guess(law={self.law!r}, contacts={brief(self.keys)}, ‖τ‖={norm(self.tau)} N·m, ‖f‖={norm(self.force)} N)"

    def carried_over(self, rows: Array, keys: tuple[str, ...]) -> Array:
        """Return `rows`, one for each contact of this guess, reordered for the contacts `keys` (n, ·); 0 for new contacts."""
        if self.keys == keys:
            return rows
        before, carried = {key: i for i, key in enumerate(self.keys)}, np.zeros((len(keys), rows.shape[1]), rows.dtype)
        for i, key in enumerate(keys):
            if key in before:
                carried[i] = rows[before[key]]
        return carried


class Residuals(msgspec.Struct, frozen=True, gc=False):
    """Residuals of the certificate, computed from the problem data by code that no solver shares (MATHEMATICS §5.4). Impulses
    are divided by the inertia that they move where that is below 1 kg or 1 kg·m².

    dynamics: ‖M(v⁺−v) − Jᵀp − dt(Pᵀτ − h)‖∞ [N·s, N·m·s]
    demand: the larger of ‖P v⁺ − v_a − dt q̈‖∞ for the realised demand q̈, and the difference between the reported
        `demand_change` and the actual change of the demand [rad/s]
    complementarity: max |min(z, w)| over the pairs of the law [N·s or m/s]
    cone: distance of an impulse from its friction cone, or its negative normal part [N·s]
    penetration: amount by which a contact's closing speed exceeds its allowance [m/s]
    slip: largest tangential speed that the law requires to be zero, or opening speed of a closed chain [m/s]
    """

    dynamics: float
    demand: float
    complementarity: float
    cone: float
    penetration: float
    slip: float

    def __repr__(self) -> str:
        return f"Residuals({', '.join(f'{name}={getattr(self, name):.1e}' for name in self.__struct_fields__)})"

    @property
    def worst(self) -> float:
        """The largest residual."""
        return max(self.dynamics, self.demand, self.complementarity, self.cone, self.penetration, self.slip)


class Prediction(Record, frozen=True):
    """Result of `predict`. `force` and `tau` are shared with `guess`: copy them before you write to them.

    tau: joint torques [N·m] (na)
    force: contact forces on the first bodies, in the world [N] (n, 3)
    p: contact impulses over dt in rows S, T, N of each contact [N·s] (3n)
    dt: period [s]
    v_plus: predicted velocity at the end of the period (nv)
    status: SOLVED: certified solution of the requested law; OTHER_LAW: certified solution of another law, named in `law`;
        otherwise why the requested law failed; tau is then computed for the contact forces of the last tick
    law, rung: the law that gave the solution, and the name of its solver attempt (rung)
    iterations: pivots or QP iterations of this rung
    residuals: residuals of the certificate
    demand_change: change of the demanded joint velocities by the projection, max norm [rad/s]
    torque_excess: largest excess of a torque over its limit [N·m]; 0 up to 1e-9 of the limit
    force_excess: largest excess of a contact force over `Options.force_limit` [N]; 0 up to 1e-9 of it
    null_dim: dimension of the space of contact impulses that cause no motion
    closing: impulse of each closure on its first body, in the world: x, y, z [N·s] (3m)
    guess: warm start for the next call
    moment: contact moments on the first bodies about the contact points halfway between the surfaces, in the world [N·m]
        (n, 3), under the law `mujoco` with friction against turning (condim 4 or 6); otherwise (0, 3)
    unique: whether Coulomb's law on rigid ground allows one motion only under `tau`; None: not known, or not asked, see
        `Options.outcomes`
    others: v⁺ (nv) of the motions that it allows, without the one nearest to `v_plus`
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
    moment: Array = NO_MOMENTS
    unique: bool | None = None
    others: tuple[Array, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Prediction({self.status}, law={self.law!r}, rung={self.rung!r}, na={len(self.tau)}, ‖τ‖={norm(self.tau)} N·m, "
            f"contacts={brief(self.keys)}, Σf_n={self.normal_force.sum():.4g} N, residual={self.residuals.worst:.1e})"
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Contact keys in the order of the rows (n)."""
        return self.guess.keys

    @property
    def impulse(self) -> Array:
        """Contact impulses in the world [N·s] (n, 3)."""
        return self.force * self.dt

    @property
    def normal_force(self) -> Array:
        """Contact forces along the normals [N] (n)."""
        return self.p[2::3] / self.dt
