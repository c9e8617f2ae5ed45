"""Bilateral constraints (ties), limits (stops) and contacts of a step as one set of rows, linearised at its start or end."""

from typing import NamedTuple

import numpy as np

from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import forward
from idyn.types import Array, Record
from sim_harness.engines.bilateral import FASTEST
from sim_harness.engines.engine import ForwardProblem, gap_speeds
from sim_harness.engines.linalg import dot, gram

NOTHING = 1e-22  # a row whose diagonal of D is below this share of the largest one is rounding error and moves no body
ROUNDING = 1e-6  # largest error of a constraint that its row cannot change [m or rad]; the constraint then counts as satisfied


SLOWEST, GENTLEST = 0.1, 100.0
"""Smallest speed scale for tolerances: SLOWEST [m/s], or in short steps GENTLEST [m/s²] times dt. With a tolerance of 10⁻⁶ a
resting body may creep by 0.1 µm/s."""


class Plan(NamedTuple):
    """Layout and parameters of the rows: `ties`, then `stops`, then rows S, T, N of each contact; m in all."""

    ties: int  # number of bilateral rows
    stops: int  # number of stops
    offset: Vector  # g/(dt + τ_d), 0 for tangents [m/s] (m)
    softness: Vector  # e/(dt (dt + τ_d)), 0 for tangents [(m/s)/(N·s)] (m)
    mu: Vector  # friction coefficients of the contacts, may be inf (n)
    dt: float  # step [s]


class Constraints(NamedTuple):
    """A plan with its matrices in the coordinates z = Lᵀ v, M = L Lᵀ."""

    plan: Plan
    Y: Matrix  # J v = Y z (m, nv)
    D: Matrix  # Y Yᵀ (m, m)
    z_free: Vector  # motion without impulses (nv)
    # weight of a row (m): diagonal of D plus softness; for both tangents of a contact the mean of their diagonals of D; 1 for
    # rows that move no body
    w: Vector
    scale: float  # largest speed of a row without impulses, at least min(`SLOWEST`, `GENTLEST` dt) [m/s]
    soft: float  # share of w that every row yields per impulse, see `softened`


@compiled
def normal_row(plan: Plan, i: int) -> int:
    """Return the row of stop i (i < stops) or of the normal of contact i − stops."""
    return plan.ties + i if i < plan.stops else plan.ties + plan.stops + 3 * (i - plan.stops) + 2


@entry(Plan, Matrix, Matrix, Vector)
def constraints(plan: Plan, J: Array, L: Array, z_free: Array) -> Constraints:
    """Return the matrices of the plan.

    J: all rows (m, nv)
    L: Cholesky factor of M (nv, nv)
    """
    m, Y = len(J), J.copy()
    for i in range(m):
        forward(L, Y[i])
    D = gram(Y)
    drop_rounding(plan, Y, D)
    w, scale = np.ones(m), min(SLOWEST, GENTLEST * plan.dt)
    for i in range(m):
        if D[i, i] + plan.softness[i] > 0.0:
            w[i] = D[i, i] + plan.softness[i]
        # offsets do not enter the scale: a stop 3 rad away is no speed of 3000 rad/s
        scale = max(scale, abs(dot(0.0, Y[i], z_free)))
    for i in range(len(plan.mu)):
        t = plan.ties + plan.stops + 3 * i
        mean = 0.5 * (D[t, t] + D[t + 1, t + 1])
        w[t] = w[t + 1] = mean if mean > 0.0 else 1.0
    return Constraints(plan, Y, D, z_free, w, scale, 0.0)


@compiled
def softened(c: Constraints, soft: float) -> Constraints:
    """Return the constraints with u = J v⁺ + soft w p in all rows, tangents included: redundant impulses are then unique."""
    D = c.D.copy()
    for i in range(len(D)):
        D[i, i] += soft * c.w[i]
    return Constraints(c.plan, c.Y, D, c.z_free, c.w, c.scale, soft)


@compiled
def drop_rounding(plan: Plan, Y: Array, D: Array) -> None:
    """Set rows that are rounding error, and therefore move no body, to 0 in place.

    When such a row is a satisfied tie, stop or normal, its condition in the plan becomes p = 0.
    """
    m, longest = len(D), 0.0
    for i in range(m):
        longest = max(longest, D[i, i])
    for i in range(m):
        if D[i, i] > NOTHING * longest:
            continue
        for d in range(Y.shape[1]):
            Y[i, d] = 0.0
        for j in range(m):
            D[i, j] = D[j, i] = 0.0
        agrees = abs(plan.offset[i]) * plan.dt <= ROUNDING if i < plan.ties else plan.offset[i] >= -ROUNDING / plan.dt
        if agrees:
            plan.offset[i], plan.softness[i] = 0.0, 1.0


class Stack(Record, frozen=True):
    """Rows of ties, then stops, then contacts with rows S, T, N each; m in all."""

    problem: ForwardProblem  # the step
    order: Array  # indices of the problem's rows in the stack (ties + stops)
    ties: int  # number of ties
    tau: Array  # τ_d [s] (m)
    # compliance of contact rows [m/N]; 0 for constraint rows, whose compliance `plan` reads from the problem (m)
    compliance: Array
    ease: Array  # added to g to limit closing and recovery speeds [m or rad] (m)

    def plan(self, v: Array | None = None) -> tuple[Plan, Array]:
        """Return plan and Jacobian (m, nv); ties and stops at q ⊕ dt v, or at the beginning of the step if v is None."""
        a, first = self.problem, len(self.order)
        rows, J = a.rows, a.J
        if v is None or a.system is None:
            v = np.zeros(len(a.v))
        else:
            rows = a.system.rows(a.dt * v)
        g, e = self.ease.copy(), self.compliance
        g[first + 2 :: 3] += a.gaps
        if rows is not None:
            J = np.concatenate([rows.G[self.order], J])
            g[:first] += rows.g[self.order]
            if rows.compliance is not None:
                e = e.copy()
                e[:first] = rows.compliance[self.order]
        offset, softness = linearised(J, g, e, self.tau, a.dt * v, a.dt, first)
        offset[first::3], offset[first + 1 :: 3] = 0.0, 0.0
        return Plan(self.ties, first - self.ties, offset, softness, a.mu, a.dt), J

    def of_rows(self, p: Array) -> Array | None:
        """Return impulses in the order of the problem's rows, None without rows."""
        if self.problem.rows is None:
            return None
        out = np.empty(len(self.order))
        out[self.order] = p[: len(self.order)]
        return out


def stack_of(problem: ForwardProblem, recovery: float, restitution: float = 0.0) -> Stack:
    """Return the stack of a step.

    recovery: largest speed at which a penetration of rigid contacts is reduced [m/s]
    restitution: of rigid contacts
    """
    a, deepest = problem, recovery * problem.dt
    stops = np.zeros(0, dtype=bool) if a.rows is None else a.rows.stops
    order, ties, first = np.argsort(stops, kind="stable"), int(np.count_nonzero(~stops)), len(stops)  # ties first, then stops
    tau, compliance, ease = np.zeros((3, first + 3 * len(a.mu)))
    if a.rows is not None:
        tau[:first] = a.rows.damping_times[order]
        g = a.rows.g[order]
        ease[:ties] = np.clip(g[:ties], -FASTEST * a.dt, FASTEST * a.dt) - g[:ties]
        ease[ties:first] = np.maximum(-g[ties:] - deepest, 0.0)
        ease[:first][a.rows.yields[order]] = 0.0
    normal = slice(first + 2, None, 3)
    ease[normal] = np.maximum(-a.gaps - deepest, 0.0)
    if restitution > 0.0:
        ease[normal] = a.dt * gap_speeds(a.gaps, a.J[2::3] @ a.v, a.dt, recovery, restitution) - a.gaps
    if a.stiffness is not None:
        soft = np.isfinite(a.stiffness)
        compliance[normal] = 1.0 / a.stiffness
        ease[normal][soft] = 0.0
        if a.dissipation is not None:
            tau[normal] = np.where((a.gaps <= 0.0) & soft, a.dissipation, 0.0)
    return Stack(problem=a, order=order, ties=ties, tau=tau, compliance=compliance, ease=ease)


@entry(Matrix, Vector, Vector, Vector, Vector, float, int)
def linearised(
    J: Array, g: Array, e: Array, tau: Array, shift: Array, dt: float, moved: int
) -> tuple[Array, Array]:  # fmt: skip
    """Return offset and softness of `Plan` (m).

    J: Jacobian of the rows (m, nv)
    g: constraint values [m or rad] (m)
    e: compliance [m/N, rad/(N·m)] (m)
    tau: τ_d [s] (m)
    shift: displacement q ⊕ shift at which the first `moved` rows of g and J are evaluated (nv); the others are at q
    """
    offset, softness, back = np.zeros(len(g)), np.zeros(len(g)), -shift
    for i in range(len(g)):
        at = dot(g[i], J[i], back) if i < moved else g[i]  # g − J shift: extrapolated back to q
        offset[i] = at / (dt + tau[i])
        softness[i] = e[i] / (dt * (dt + tau[i]))
    return offset, softness
