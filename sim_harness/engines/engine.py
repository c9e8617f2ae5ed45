"""Input and output of a forward engine, which computes one velocity step in all degrees of freedom, without inverse dynamics.

    M (v⁺ − v) = Jᵀ p + dt (f − h)
The engines differ in the impulses p that they allow. They share no code with the contact laws that are tested against them.
"""

from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from idyn.status import Status
from idyn.types import Array, Record

NON_FINITE = Status.NON_FINITE.value  # for kernels, which return the number of a status


class Rows(Record, frozen=True):
    """Constraints other than contacts, m rows: closures, welds and couplers g(q) = 0, joint stops g(q) ≥ 0, springs.

    The force of a compliant row is λ = −(g + τ_d ġ) / e at the end of the step. A compliant stop acts only while λ > 0.
    """

    G: Array  # Jacobian, ġ = G v (m, nv)
    g: Array  # constraint values at the beginning of the step [m or rad] (m)
    stops: Array  # true for one-sided rows (m)
    compliance: Array | None = None  # e = 1/k, ≥ 0, 0 for rigid rows [m/N, rad/(N·m)] (m); None: all rows are rigid
    dissipation: Array | None = None  # τ_d ≥ 0 of compliant rows, damping is k τ_d [s] (m); None: no row is damped

    def __post_init__(self) -> None:
        """Store the arrays in C order, as kernels read them."""
        for name in ("G", "g", "compliance", "dissipation"):
            if (given := getattr(self, name)) is not None:
                msgspec.structs.force_setattr(self, name, np.ascontiguousarray(given))

    @property
    def yields(self) -> Array:
        """Return true for each compliant row (m)."""
        return np.zeros(len(self.g), dtype=bool) if self.compliance is None else self.compliance > 0.0

    @property
    def damping_times(self) -> Array:
        """Return τ_d of all rows, 0 for rigid rows [s] (m)."""
        return np.zeros(len(self.g)) if self.dissipation is None else np.where(self.yields, self.dissipation, 0.0)


class Springs(Record, frozen=True):
    """Joint springs and dampers, one per degree of freedom, force −stiffness · (stretch + Δq) − damping · v.

    Δq is the displacement since the beginning of the step.
    """

    stiffness: Array  # ≥ 0 [N/m, N·m/rad] (nv)
    damping: Array  # ≥ 0 [N·s/m, N·m·s/rad] (nv)
    stretch: Array  # joint position minus rest position of the spring, at the beginning of the step [m, rad] (nv)


class System(Protocol):
    """Evaluates the bodies at other configurations q ⊕ shift, with the displacement shift = dt v [m or rad] (nv)."""

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        """Return M (nv, nv) and h (nv) at q ⊕ shift and velocity v. They are valid until the next call."""
        ...

    def rows(self, shift: Array) -> Rows | None:
        """Return the constraint rows at q ⊕ shift, in the order of `ForwardProblem.rows`."""
        ...


class ForwardProblem(Record, frozen=True):
    """One step of the simulated world with n contacts and nv velocities."""

    M: Array  # joint-space inertia (nv, nv)
    h: Array  # Coriolis, centrifugal and gravity forces (nv)
    v: Array  # velocity before the step (nv)
    J: Array  # contact Jacobian, rows S, T, N of each contact (3n, nv)
    force: Array  # generalised force of motors and pushes [N, N·m] (nv)
    mu: Array  # friction coefficients, may be 0 or inf (n)
    gaps: Array  # signed distances φ, negative in penetration [m] (n)
    dt: float  # step [s]
    rows: Rows | None = None  # constraints other than contacts, None without any
    stiffness: Array | None = None  # of the contacts [N/m] (n); None: the engine uses its own settings
    dissipation: Array | None = None  # τ_d of the contacts [s] (n), like stiffness
    # joint springs for an `Integrator`; springs that are already folded into M and force are not listed
    springs: Springs | None = None
    system: System | None = None  # evaluates other configurations; only some engines use it

    def __post_init__(self) -> None:
        """Store the matrices in C order, as kernels read them."""
        for name in ("M", "J"):
            msgspec.structs.force_setattr(self, name, np.ascontiguousarray(getattr(self, name)))


class Accuracy(Record, frozen=True):
    """Relative errors of a convex engine in its own optimisation problem [SAP §VI-C]."""

    momentum: float  # e_m = ‖D ∇ℓ‖ / max(‖D p‖, ‖D Jᵀγ‖) with D = diag(M)^-½
    slackness: float  # e_μ, mean of |g · γ| over the contacts in the problem, divided by the cost ℓ


class ForwardSolution(Record, frozen=True):
    """Result of one step."""

    v_plus: Array  # velocity after the step (nv)
    p: Array  # impulses on the first bodies in contact coordinates (s, t, n) [N·s] (n, 3)
    status: Status  # outcome of the solve; unless `status.ok`, v_plus and p are the best approximation found
    iterations: int  # pivots or iterations, sum over all attempts
    dynamics: float  # ‖M(v⁺ − v) − Jᵀp − dt(f − h)‖∞ [N·s, N·m·s]
    contact: float  # largest violation of the engine's own contact law by p and v⁺ [N·s or m/s]
    rows: Array | None = None  # impulses of the constraint rows [N·s, N·m·s] (m); None when the problem has no rows
    # velocity with which the world integrates the configuration, q⁺ = q ⊕ dt · drift (nv); None: v_plus is used
    drift: Array | None = None
    accuracy: Accuracy | None = None  # set by engines that minimise a cost, else None

    @property
    def configuration_velocity(self) -> Array:
        """Return the velocity with which the world integrates the configuration: `drift`, or v_plus if `drift` is None (nv)."""
        return self.v_plus if self.drift is None else self.drift


class ForceTimes(NamedTuple):
    """Times at which a world evaluates forces, as fractions of the step: 0 beginning, 1 end."""

    bodies: float = 0.0  # configuration and velocity of M and h
    springs: float = 1.0  # joint springs
    dampers: float = 1.0  # joint dampers
    rows: float = 0.0  # Jacobians of constraint rows


class Engine(Protocol):
    """A contact model with its solver. Holds settings only: equal problems give bitwise equal solutions."""

    def solve(self, problem: ForwardProblem) -> ForwardSolution: ...


@runtime_checkable
class Integrator(Engine, Protocol):
    """An engine with its own integration scheme, which receives joint springs in `ForwardProblem.springs`.

    For all other engines the world folds springs into M and force.
    """

    @property
    def scheme(self) -> str: ...


@runtime_checkable
class CompliantEngine(Engine, Protocol):
    """An engine that handles compliant rows itself. For all other engines the world folds them into M and force."""

    @property
    def force_times(self) -> ForceTimes: ...


Restitution = Annotated[float, msgspec.Meta(ge=0, le=1)]  # coefficient of restitution e

SLOWEST = 0.05  # impacts slower than this are inelastic [m/s], so that resting bodies do not hop


def gap_speeds(gaps: Array, speeds: Array, dt: float, recovery: float, restitution: float) -> Array:
    """Return c of each contact [m/s] (n): recovery from penetration, and Newton's law of restitution.

    N v⁺ + c ≥ 0        c = max(φ/dt, −recovery)        c ≤ e N v   where a contact closes within the step, φ/dt + N v < 0
    The body bounces at the beginning of the step in which it would touch, so up to dt |N v| too high. Newton's law can gain
    energy where friction changes the direction of an impact, and several contacts that close together bounce one by one.

    gaps: φ [m] (n); speeds: N v before the step, positive where contacts open [m/s] (n)
    recovery: largest speed at which a penetration is reduced [m/s]; restitution: e, 0 to 1
    """
    at_rest = gaps / dt
    c = np.maximum(at_rest, -recovery)
    if restitution == 0.0:
        return c
    bounces = (at_rest + speeds < 0.0) & (speeds < -SLOWEST)
    return np.where(bounces, np.minimum(c, restitution * speeds), c)


def items_of(
    problem: ForwardProblem, contacts: Array, rows: Array, stiffness: float, dissipation: float
) -> tuple[Array, Array, Array, Array, Array]:
    """Return J (3k, nv), friction, stiffness [N/m], τ_d [s] and gaps [m or rad] (k) of selected contacts, then selected rows.

    Constraint rows get zero tangent rows and zero friction. A rigid item has infinite stiffness.

    contacts, rows: true for selected contacts (n) and constraint rows (m)
    stiffness, dissipation: for contacts when the problem has no stiffness [N/m] or no dissipation [s]
    """
    a, n, m = problem, np.count_nonzero(contacts), np.count_nonzero(rows)
    J, (mu, tau, gaps), k = np.zeros((3 * (n + m), len(a.v))), np.zeros((3, n + m)), np.full(n + m, np.inf)
    J[: 3 * n], mu[:n], gaps[:n] = a.J[np.repeat(contacts, 3)], a.mu[contacts], a.gaps[contacts]
    k[:n] = stiffness if a.stiffness is None else a.stiffness[contacts]
    tau[:n] = dissipation if a.dissipation is None else a.dissipation[contacts]
    if a.rows is not None:
        J[3 * n + 2 :: 3], gaps[n:], tau[n:] = a.rows.G[rows], a.rows.g[rows], a.rows.damping_times[rows]
        if a.rows.compliance is not None:
            on = a.rows.yields[rows]
            k[n:][on] = 1.0 / a.rows.compliance[rows][on]
    return J, mu, k, tau, gaps
