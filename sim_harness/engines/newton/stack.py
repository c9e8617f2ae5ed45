"""Bilateral constraints (ties), limits (stops) and contacts of a step as one set of rows, linearised at its start or end."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array, Record
from sim_harness.engines.bilateral import FASTEST
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.impacts import gap_speeds
from sim_harness.engines.newton.rows import Plan
from sim_harness.engines.vectors import dot

NO_ORDER = np.zeros(0, dtype=np.int64)


class Stack(Record, frozen=True):
    """Rows of ties, then stops, then contacts with rows S, T, N each; m in all.

    problem: the step
    order: indices of the problem's rows in the stack (ties + stops)
    ties: number of ties
    tau: τ_d [s] (m)
    compliance: compliance of contact rows [m/N]; 0 for constraint rows, whose compliance `plan` reads from the problem (m)
    ease: added to g to limit closing and recovery speeds [m or rad] (m)
    contacts_too: whether contacts, like constraint rows, are evaluated at the predicted end of the step
    """

    problem: ForwardProblem
    order: Array
    ties: int
    tau: Array
    compliance: Array
    ease: Array
    contacts_too: bool

    def plan(self, v: Array | None = None) -> tuple[Plan, Array]:
        """Return plan and Jacobian (m, nv), linearised at q ⊕ dt v, or at the beginning of the step if v is None."""
        a, first = self.problem, len(self.order)
        rows, J, gaps = a.rows, a.J, a.gaps
        if v is None or a.system is None:
            v = np.zeros(len(a.v))
        else:
            rows = a.system.rows(a.dt * v)
            if self.contacts_too:
                J, gaps = a.system.contacts(a.dt * v)
        g, e = self.ease.copy(), self.compliance
        g[first + 2 :: 3] += gaps
        if rows is not None:
            J = np.concatenate([rows.G[self.order], J])
            g[:first] += rows.g[self.order]
            if rows.compliance is not None:
                e = e.copy()
                e[:first] = rows.compliance[self.order]
        last = len(g) if self.contacts_too else first
        offset, softness = linearised(J, g, e, self.tau, a.dt * v, a.dt, last)
        offset[first::3], offset[first + 1 :: 3] = 0.0, 0.0
        return Plan(self.ties, first - self.ties, offset, softness, a.mu, a.dt), J

    def of_rows(self, p: Array) -> Array | None:
        """Return impulses in the order of the problem's rows, None without rows."""
        if self.problem.rows is None:
            return None
        out = np.empty(len(self.order))
        out[self.order] = p[: len(self.order)]
        return out


def stack_of(problem: ForwardProblem, recovery: float, contacts_too: bool, restitution: float = 0.0) -> Stack:
    """Return the stack of a step.

    recovery: largest speed at which a penetration of rigid contacts is reduced [m/s]
    contacts_too: see `Stack`
    restitution: of rigid contacts
    """
    a, deepest = problem, recovery * problem.dt
    order, ties = (NO_ORDER, 0) if a.rows is None else _in_order(a.rows)
    first = len(order)
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
    return Stack(
        problem=a, order=order, ties=ties, tau=tau, compliance=compliance, ease=ease, contacts_too=contacts_too
    )  # fmt: skip


def _in_order(rows: Rows) -> tuple[Array, int]:
    """Return the indices of the rows, ties first, then stops, and the number of ties."""
    ties = np.flatnonzero(~rows.stops)
    return np.concatenate([ties, np.flatnonzero(rows.stops)]), len(ties)


@compiled
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
