"""What every forward engine is given and what it answers: one velocity step in the full space, no inverse dynamics.

    M (v⁺ − v) = Jᵀ p + dt (f − h)
The engines differ in which impulses p they allow. They know nothing of the laws whose predictions are tested with them.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from idyn.status import Status
from idyn.types import Array, Record


class Rows(Record, frozen=True):
    """Constraints beside contacts, m rows: closures, welds and couplers g(q) = 0, stops of joints g(q) ≥ 0, springs.

    A row that yields presses with λ = −(g + τ_d ġ) / e at the end of the step, which a stop does only while that is positive.
    Elastic elements are such rows, too, also where they are not linear [Macklin §5.2]: at every configuration −g / e are the
    forces there and Gᵀ diag(1/e) G their stiffness, or what is positive semidefinite of it.

    G: ġ = G v (m, nv)
    g: where they stand now [m or rad] (m)
    stops: which are one-sided (m)
    compliance: e = 1/k, ≥ 0, 0 for rigid [m/N, rad/(N·m)] (m); None: all are rigid
    dissipation: τ_d, ≥ 0, of a row that yields; its damping is k τ_d [s] (m); None: of none
    """

    G: Array
    g: Array
    stops: Array
    compliance: Array | None = None
    dissipation: Array | None = None

    @property
    def yields(self) -> Array:
        """Which rows are not rigid (m)."""
        return np.zeros(len(self.g), dtype=bool) if self.compliance is None else self.compliance > 0.0

    @property
    def damping_times(self) -> Array:
        """τ_d of all rows, 0 of rigid ones [s] (m)"""
        return np.zeros(len(self.g)) if self.dissipation is None else np.where(self.yields, self.dissipation, 0.0)


class Springs(Record, frozen=True):
    """Springs and dampers of the joints, one for each degree of freedom: force −stiffness · (stretch + way) − damping · v.

    stiffness: [N/m, N·m/rad], ≥ 0 (nv)
    damping: [N·s/m, N·m·s/rad], ≥ 0 (nv)
    stretch: how far each joint is from where its spring rests [m, rad] (nv)
    """

    stiffness: Array
    damping: Array
    stretch: Array


class System(Protocol):
    """The bodies at configurations beside the one they are at: q ⊕ shift, where a step dt v = shift [m or rad] (nv) leads."""

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        """M (nv, nv) and h (nv) at q ⊕ shift and velocity v, until the next call."""
        ...

    def rows(self, shift: Array) -> Rows | None:
        """The constraint rows at q ⊕ shift, in the order of the problem's."""
        ...

    def contacts(self, shift: Array) -> tuple[Array, Array]:
        """J (3n, nv) and gaps [m] (n) of the step's contacts at q ⊕ shift: the points go with their bodies, normals and
        tangents stay."""
        ...


class ForwardProblem(Record, frozen=True):
    """One step of the simulated world; n contacts, nv velocities.

    M, h: joint-space inertia (nv, nv) and Coriolis, centrifugal and gravity forces (nv)
    v: velocity before the step (nv)
    J: contact Jacobian, rows S, T, N of each contact (3n, nv)
    force: generalised force of motors and pushes [N, N·m] (nv)
    mu: friction coefficients, may be 0 or inf (n)
    gaps: signed distances φ, negative when penetrating [m] (n)
    dt: step [s]
    rows: constraints beside contacts, if there are any
    stiffness, dissipation: of the bodies in contact [N/m] (n), [s] (n); None where the engine has its own
    bias: reckons Ṅ v, the acceleration along the normals that v̇ = 0 leaves [m/s²] (n), for engines that ask for it
    springs: of the joints, for engines that take them into their own scheme; what is folded into M and force is not here
    system: for engines that look at other configurations; the others do not ask for it
    """

    M: Array
    h: Array
    v: Array
    J: Array
    force: Array
    mu: Array
    gaps: Array
    dt: float
    rows: Rows | None = None
    stiffness: Array | None = None
    dissipation: Array | None = None
    bias: Callable[[], Array] | None = None
    springs: Springs | None = None
    system: System | None = None


class Accuracy(Record, frozen=True):
    """How well a convex engine solved its own problem [SAP §VI-C].

    momentum: e_m, ‖D ∇ℓ‖ over the larger of ‖D p‖ and ‖D Jᵀγ‖ with D = diag(M)^-½
    slackness: e_μ, the mean of |g · γ| of the contacts that were looked at, over the cost ℓ
    """

    momentum: float
    slackness: float


class ForwardSolution(Record, frozen=True):
    """Where the step ends.

    v_plus: velocity after the step (nv)
    p: impulses on the first bodies in contact coordinates (s, t, n) [N·s] (n, 3)
    status: how the solve ended; v_plus and p are usable but doubtful unless `status.ok`
    iterations: pivots or iterations, of all attempts together
    dynamics: ‖M(v⁺ − v) − Jᵀp − dt(f − h)‖∞ [N·s, N·m·s]
    contact: how far p and v⁺ are from the engine's own contact law, its largest violation [N·s or m/s]
    rows: impulses of the constraint rows, None where the problem has none [N·s, N·m·s] (m)
    drift: the velocity with which the configuration moves during the step, None for v_plus (nv)
    accuracy: of engines that minimise, None for the others
    """

    v_plus: Array
    p: Array
    status: Status
    iterations: int
    dynamics: float
    contact: float
    rows: Array | None = None
    drift: Array | None = None
    accuracy: Accuracy | None = None

    @property
    def course(self) -> Array:
        """The velocity with which the configuration moves, whether or not it is v_plus (nv)."""
        return self.v_plus if self.drift is None else self.drift


class Engine(Protocol):
    """A contact model with its solver. Holds settings only: two calls with equal problems give equal bits."""

    def solve(self, problem: ForwardProblem) -> ForwardSolution: ...


@runtime_checkable
class Integrator(Engine, Protocol):
    """An engine with an integration scheme of its own, by the name of a setting. It is given `springs`; for all other engines
    they are folded into M and force."""

    @property
    def scheme(self) -> str: ...


@runtime_checkable
class Yielding(Engine, Protocol):
    """An engine that takes rows with compliance as they are. For all others they are folded into M and force.

    rows_at, contacts_at: where in the step the G and the J of its forces are taken, 0 at its beginning, 1 at its end
    """

    @property
    def rows_at(self) -> float: ...

    @property
    def contacts_at(self) -> float: ...
