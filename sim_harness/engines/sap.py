"""`sap`: compliant contact with Coulomb friction as one unconstrained convex problem per step in v  [SAP].

    min ½ ‖v − v*‖²_A + ½ ‖P_F(y(v))‖²_R          y = R⁻¹ (v̂ − J v)
    R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d)))        R_t = σ w        v̂_n = −φ / (dt + τ_d)
A sticking contact presses with f_N = −k (φ⁺ + τ_d N v⁺) and never pulls. A sliding contact uses its full friction.
Constraint rows are solved together with the contacts: a stop is a contact without friction, a bilateral row (closure, weld,
coupler) a contact that can also pull. Rows without compliance are near-rigid, rows with compliance have exactly that stiffness.
Islands of bodies without a common constraint are minimised separately.

Modelling error: a contact that should stick creeps at R_t f_T dt. A sliding contact gets the normal force of a gap smaller by
(dt + τ_d) μ ‖v_T‖, so it glides above the ground. No contact is stiffer than 4π² / (β² w dt (dt + τ_d)), the first term of R_n.
μ is limited to MU_CAP, also μ = ∞: a sliding contact opens at μ times its slip speed, so larger friction would hold down
feet that lift.

Free motion: the velocity v* without contacts, and the Hessian A of ½ ‖v − v*‖²_A  [SAP §III-A, App. A].
    m(v) = M(q^θ) (v − v₀) − dt k(q^θ, v^θ) = 0 at v*          A = M + dt² θ θ_vq K + dt θ D
    q^θ = q₀ ⊕ θ dt v^θvq      v^θ = θ v + (1 − θ) v₀      v^θvq = θ_vq v + (1 − θ_vq) v₀
K and D are the stiffness and damping of the joints. Newton's method evaluates all other terms exactly, but A omits their
derivatives. Difference from the paper: K = −∂k₁/∂q · N. (16) as printed contains θ_vq twice, which would halve the springs at
midpoint.
w: effective inverse mass of a constraint when no other one acts, ‖W_ii‖_F / 3 for a contact, G M⁻¹ Gᵀ for a row [SAP §III].
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import copy
from idyn.status import NOT_CERTIFIED, SOLVED, STATUSES, Status
from idyn.types import Array
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import NON_FINITE, Accuracy, ForceTimes, ForwardProblem, ForwardSolution, Springs, items_of
from sim_harness.engines.linalg import (
    add,
    backward_within,
    cholesky_within,
    dofs_of,
    dot,
    forward_within,
    islands_of,
    profile,
    touched,
    trees_of,
)
from sim_harness.engines.sap_newton import (
    MU,
    R_N,
    R_T,
    V_HAT,
    Motion,
    Rules,
    convex_problem,
    minimise,
    project_cone,
    regularisation,
)


class Materials(NamedTuple):
    """Parameters of all constraints, contacts first, then rows (k)."""

    mu: Vector  # friction coefficients, 0 for stops, ∞ for bilateral rows (k)
    stiffness: Vector  # [N/m] (k)
    dissipation: Vector  # τ_d [s] (k)
    gaps: Vector  # gaps and constraint values [m or rad] (k)
    contacts: int  # number of contacts
    dt: float  # step [s]
    beta: float  # β of `Sap`
    sigma: float  # σ of `Sap`


@entry(Motion, Matrix, Materials, Rules)
def contact_step(
    motion: Motion, J: Array, m: Materials, rules: Rules
) -> tuple[Array, Array, int, int, tuple[float, float, float, float]]:
    """Return the velocity after the step (nv), impulses (k, 3), status, Newton steps, and the errors of `accuracy`."""
    laws = constraint_laws(J, motion.L, motion.first, m)
    v, gamma, status, steps = solve_islands(motion, J, laws, rules)
    return v, gamma, status, steps, accuracy(motion, J, laws, v, gamma)


@compiled
def constraint_laws(J: Array, L: Array, first: Array, m: Materials) -> Array:
    """Return μ, R_t, R_n, v̂_n of each constraint (k, 4), columns as in `sap_newton`.

    R_n = 0 marks a constraint that moves no body. Constraint rows have zero tangent rows in J.
    """
    k = len(m.mu)
    laws, Y = np.zeros((k, 4)), np.zeros((3, J.shape[1]))
    for i in range(k):
        for e in range(3):  # w from W_ii = J_i M⁻¹ J_iᵀ
            copy(J[3 * i + e], Y[e])
            forward_within(L, first, Y[e])
        total = 0.0
        for a in range(3):
            for b in range(3):
                total += dot(0.0, Y[a], Y[b]) ** 2
        row = i >= m.contacts
        w = np.sqrt(total) / (1.0 if row else 3.0)
        laws[i, MU] = m.mu[i]
        beta = 0.0 if row and m.stiffness[i] < np.inf else m.beta  # compliant rows keep their stiffness
        laws[i, R_N] = regularisation(w, m.stiffness[i], m.dissipation[i], m.dt, beta)
        laws[i, R_T] = laws[i, R_N] if row else m.sigma * w
        laws[i, V_HAT] = -m.gaps[i] / (m.dt + m.dissipation[i])
        if w == 0.0:
            laws[i, R_N] = 0.0
    return laws


@compiled
def solve_islands(motion: Motion, J: Array, laws: Array, rules: Rules) -> tuple[Array, Array, int, int]:
    """Return the velocity after the step (nv), impulses (k, 3), the worst status, and the largest number of Newton steps."""
    v, gamma = motion.v_star.copy(), np.zeros((len(laws), 3))
    tree = trees_of(motion.A)
    touches = touched(J, tree)
    order, island = islands_of(touches)
    status, most = SOLVED, 0
    # minimise each island; islands without constraints keep v*
    for number in range(island.max() + 1 if len(island) else 0):
        dofs, members = dofs_of(order[island[order] == number], tree), _members(touches, island, laws, number)
        if not len(members):
            continue
        c = convex_problem(motion, J, laws, dofs, members)
        v_island, gamma_island, outcome, steps = minimise(c, motion.v[dofs], rules)
        for d in range(len(dofs)):
            v[dofs[d]] = v_island[d]
        for i in range(len(members)):
            copy(gamma_island[i], gamma[members[i]])
        most = max(most, steps)
        if outcome == NON_FINITE or (outcome == NOT_CERTIFIED and status != NON_FINITE):
            status = outcome
    return v, gamma, status, most


@compiled
def _members(touches: Array, island: Array, laws: Array, number: int) -> Array:
    """Return the indices of the constraints that act on an island."""
    members, count = np.zeros(len(laws), dtype=np.int64), 0
    for i in range(len(laws)):
        for t in range(len(island)):
            if touches[i, t]:
                if island[t] == number and laws[i, R_N] > 0.0:
                    members[count] = i
                    count += 1
                break
    return members[:count].copy()


@compiled
def accuracy(motion: Motion, J: Array, laws: Array, v: Array, gamma: Array) -> tuple[float, float, float, float]:
    """Return the errors of v (nv) and γ (k, 3): ‖A (v − v*) − Jᵀγ‖∞ [N·s, N·m·s], ‖γ − P_F(y(J v))‖∞ [N·s], e_m, e_μ.

    [SAP (32), (33)]
    """
    n, k = len(v), len(laws)
    push, u = np.zeros(n), np.zeros(3)
    slack, cost, law_error = 0.0, 0.0, 0.0
    for i in range(k):
        t, z, y_n = laws[i, R_T], laws[i, R_N], laws[i, V_HAT]
        for e in range(3):
            u[e] = dot(0.0, J[3 * i + e], v)
            add(push, gamma[i, e], J[3 * i + e])
        if z == 0.0:
            continue
        # ‖γ − P_F(y)‖∞, ½ ‖γ‖²_R and |g · γ| with g = J v − v̂ + R γ
        s, r, normal, _ = project_cone(-u[0] / t, -u[1] / t, (y_n - u[2]) / z, laws[i])
        law_error = max(law_error, abs(s - gamma[i, 0]), abs(r - gamma[i, 1]), abs(normal - gamma[i, 2]))
        squares = gamma[i, 0] ** 2 + gamma[i, 1] ** 2
        cost += 0.5 * (t * squares + z * gamma[i, 2] ** 2)
        across = u[0] * gamma[i, 0] + u[1] * gamma[i, 1] + t * squares
        slack += abs(across + (u[2] - y_n + z * gamma[i, 2]) * gamma[i, 2])
    # ½ ‖v − v*‖²_A, and the momenta D ∇ℓ, D M v, D Jᵀγ with D = diag(M)^-½
    g2 = p2 = j2 = worst = 0.0
    away = v - motion.v_star
    for r in range(n):
        momentum, weighed = dot(0.0, motion.M[r], v), dot(0.0, motion.A[r], away)
        cost += 0.5 * weighed * (v[r] - motion.v_star[r])
        worst = max(worst, abs(weighed - push[r]))
        g2 += (weighed - push[r]) ** 2 / motion.M[r, r]
        p2 += momentum**2 / motion.M[r, r]
        j2 += push[r] ** 2 / motion.M[r, r]
    scale = np.sqrt(max(p2, j2))
    if not np.isfinite(g2 + p2 + j2):
        return np.inf, np.inf, np.inf, np.inf
    return worst, law_error, np.sqrt(g2) / scale if scale > 0.0 else 0.0, slack / (k * cost) if cost > 0.0 and k else 0.0


AGREED = 1e-13  # Newton's method for v* ends when its step is below this share of the largest velocity
MOST = 50  # largest number of Newton steps for v*. Typical: 3 to 6


class Scheme(NamedTuple):
    """Parameters of an integration scheme."""

    theta: float  # θ, fraction of the step at which forces are evaluated
    theta_vq: float  # θ_vq, weight of the new velocity in the velocity that integrates the configuration

    def drift(self, v: Array, v0: Array) -> Array:
        """Return v^θvq (nv)."""
        return v if self.theta_vq == 1.0 else self.theta_vq * v + (1.0 - self.theta_vq) * v0


SCHEMES = {
    "explicit": Scheme(0.0, 0.0),
    "symplectic": Scheme(0.0, 1.0),
    "implicit": Scheme(1.0, 1.0),
    "midpoint": Scheme(0.5, 0.5),
}


def free_motion(problem: ForwardProblem, name: str) -> tuple[Motion, bool] | None:
    """Return the motion without contacts and whether Newton's method for v* converged; None when M is not positive definite.

    Raises ConfigError when the scheme needs other configurations and the problem has no `system`.
    """
    a, scheme = problem, SCHEMES[name]
    force = a.force - a.h
    if a.springs is not None:
        force -= a.springs.stiffness * a.springs.stretch + a.springs.damping * a.v
    first, L, v_star, regular = _euler(a.M, a.v, force, a.dt)
    if not regular:
        return None
    if scheme.theta == 0.0:
        return Motion(a.M, L, first, a.M, a.v, v_star), True
    if a.system is None:
        raise ConfigError("engine.scheme", f"expected 'symplectic' or 'explicit' for a problem without `system`, got {name!r}")
    v_star, A, found = _implicit(a, scheme, v_star)
    return Motion(a.M, L, first, A, a.v, v_star), found


@entry(Matrix, Vector, Vector, float)
def _euler(M: Array, v: Array, force: Array, dt: float) -> tuple[Array, Array, Array, bool]:
    """Return the profile of M (nv), its factor (nv, nv), v + dt M⁻¹ force (nv), and whether M is positive definite."""
    first, L, v_star = profile(M), M.copy(), dt * force
    cholesky_within(L, first)
    for d in range(len(v)):
        if not 0.0 < L[d, d] < np.inf:
            return first, L, v_star, False
    forward_within(L, first, v_star)
    backward_within(L, first, v_star)
    v_star += v
    return first, L, v_star, True


def _implicit(problem: ForwardProblem, scheme: Scheme, v: Array) -> tuple[Array, Array, bool]:
    """Return v*, A at v*, and whether Newton's method converged; v: initial guess. A is the approximate Jacobian."""
    a, dt, (theta, theta_vq) = problem, problem.dt, scheme
    assert a.system is not None
    springs = a.springs or Springs(*(np.zeros_like(a.v) for _ in range(3)))
    weight = np.diag(dt * dt * theta * theta_vq * springs.stiffness + dt * theta * springs.damping)
    M, h = a.system.terms(np.zeros_like(a.v), a.v)
    more_M, more_h = a.M - M, a.h - h  # terms that were folded into the problem, added again below
    for _ in range(MOST):  # v ← v − A⁻¹ m(v)
        shift, v_theta = theta * dt * scheme.drift(v, a.v), theta * v + (1.0 - theta) * a.v
        M, h = a.system.terms(shift, v_theta)
        M, h = M + more_M, h + more_h
        A = M + weight
        force = a.force - h - springs.stiffness * (springs.stretch + shift) - springs.damping * v_theta
        if not np.isfinite(force).all():
            return v, A, False
        step = np.linalg.solve(A, dt * force - M @ (v - a.v))
        v = v + step
        if np.abs(step).max() <= AGREED * np.abs(v).max():
            return v, A, True
    return v, A, False


MU_CAP = 10.0  # friction coefficient used for infinite friction


class Sap(Kind, frozen=True, tag="sap"):
    """Springs, dampers and round friction cones as one convex problem per step. Stiffness and dissipation apply to
    contacts whose bodies have no stiffness of their own.
    """

    # k [N/m], > 0, inf for as rigid as the step allows; at the default the paper's robot sinks in by 0.1 mm
    stiffness: Positive = 1e5
    dissipation: NonNegative = 5e-3  # τ_d [s], ≥ 0; the damping ratio is τ_d/2 times the natural frequency of the contact
    beta: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0  # β, period of the stiffest contact in steps
    sigma: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1e-3  # σ, smaller values reduce the creep of sticking contacts
    # integration scheme; "symplectic" and "explicit" evaluate forces at the beginning of the step, "implicit" and "midpoint"
    # (second order) solve for them by Newton's method
    scheme: Literal["symplectic", "explicit", "implicit", "midpoint"] = "symplectic"
    # "touching" uses contacts with φ ≤ 0, which bounce like a spring and damper. "near" uses all reported contacts: forces are
    # continuous, sliding and resting contacts do not chatter, and landings are damped more, but feet that swing low over ground
    # with high friction may be caught
    candidates: Literal["touching", "near"] = "touching"
    # ε_r, largest momentum error of a solved step, relative to the momentum
    tolerance: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-8
    max_iterations: Annotated[int, msgspec.Meta(ge=1)] = 100  # largest number of Newton iterations

    @property
    def force_times(self) -> ForceTimes:
        return ForceTimes(*3 * (SCHEMES[self.scheme].theta,))

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        free = free_motion(problem, self.scheme)
        if free is None or not is_sound(problem):
            return no_solution(problem)
        motion, found = free
        J, materials, chosen = self.constraints(problem)
        rules = Rules(self.tolerance, self.max_iterations)
        v, gamma, code, steps, (dynamics, contact, momentum, slackness) = contact_step(motion, J, materials, rules)
        p, n, drift = np.zeros((len(chosen), 3)), materials.contacts, SCHEMES[self.scheme].drift(v, problem.v)
        p[chosen] = gamma[:n]
        status = STATUSES[code] if found or code else Status.NOT_CERTIFIED
        return ForwardSolution(
            v_plus=v,
            p=p,
            status=status if np.isfinite(dynamics) else Status.NON_FINITE,
            iterations=steps,
            dynamics=dynamics,
            contact=contact,
            rows=None if problem.rows is None else gamma[n:, 2],
            drift=None if drift is v else drift,
            accuracy=Accuracy(momentum=momentum, slackness=slackness),
        )

    def constraints(self, problem: ForwardProblem) -> tuple[Array, Materials, Array]:
        """Return J of contacts and rows, three rows each (3k, nv), their parameters, and which contacts are used (n)."""
        a = problem
        chosen = np.ones(len(a.mu), dtype=bool) if self.candidates == "near" else a.gaps <= 0.0
        every = np.ones(0 if a.rows is None else len(a.rows.g), dtype=bool)
        J, mu, k, tau, gaps = items_of(a, chosen, every, self.stiffness, self.dissipation)
        mu, n = np.minimum(mu, MU_CAP), len(mu) - len(every)
        if a.rows is not None:
            mu[n:] = np.where(a.rows.stops, 0.0, np.inf)
            tau[n:][~a.rows.yields] = self.beta * a.dt / np.pi  # critical damping of a spring of period β dt
        return J, Materials(mu, k, tau, gaps, n, a.dt, self.beta, self.sigma), chosen
