"""A step's ties, stops and contacts in one stack, at its beginning or wherever the bodies would be at its end."""

import numpy as np

from idyn.types import Array, Record
from sim_harness.engines.bilateral import FASTEST
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.newton_rows import Plan


class Stack(Record, frozen=True):
    """Ties, then stops, then contacts with rows S, T, N each; m in all.

    order: of the problem's rows (ties + stops)
    tau: τ_d [s] (m)
    compliance: of contacts' rows, those of others are 0 and asked for anew [m/N] (m)
    ease: by how much g is taken for more than it is, so that nothing open or penetrated is undone too fast [m or rad] (m)
    """

    problem: ForwardProblem
    ties: int
    stops: int
    order: Array
    tau: Array
    compliance: Array
    ease: Array

    def plan(self, v: Array | None = None) -> tuple[Plan, Array]:
        """Rows linearised where the velocity v leads (nv), None: at the beginning; and their Jacobian (m, nv)."""
        a, first = self.problem, self.ties + self.stops
        rows, J_c, gaps = a.rows, a.J, a.gaps
        if v is not None and a.system is not None:
            rows = a.system.rows(a.dt * v)
            J_c, gaps = a.system.contacts(a.dt * v)
        J, g, e = np.empty((len(self.tau), len(a.v))), self.ease.copy(), self.compliance
        if rows is not None:
            J[:first] = rows.G[self.order]
            g[:first] += rows.g[self.order]
            if rows.compliance is not None:
                e = e.copy()
                e[:first] = rows.compliance[self.order]
        J[first:] = J_c
        g[first + 2 :: 3] += gaps
        if v is not None:
            way = a.dt * (J @ v)
            way[first::3], way[first + 1 :: 3] = 0.0, 0.0
            g -= way
        span = a.dt + self.tau
        return Plan(self.ties, self.stops, g / span, e / (a.dt * span), a.mu, a.dt), J

    def of_rows(self, p: Array) -> Array | None:
        """Impulses in the order of the problem's rows."""
        if self.problem.rows is None:
            return None
        out = np.empty(len(self.order))
        out[self.order] = p[: len(self.order)]
        return out


def stack_of(problem: ForwardProblem, recovery: float) -> Stack:
    """recovery: largest speed at which a penetration of rigid contacts is undone [m/s]"""
    a, rows = problem, problem.rows or Rows(np.zeros((0, len(problem.v))), np.zeros(0), np.zeros(0, dtype=bool))
    order = np.r_[np.flatnonzero(~rows.stops), np.flatnonzero(rows.stops)]
    first, n = len(order), len(a.mu)
    ties = first - int(np.count_nonzero(rows.stops))
    tau, compliance, ease = np.zeros((3, first + 3 * n))
    tau[:first] = rows.damping_times[order]
    soft = rows.yields[order]
    g = rows.g[order]
    ease[:ties] = np.clip(g[:ties], -FASTEST * a.dt, FASTEST * a.dt) - g[:ties]
    ease[ties:first] = np.maximum(-g[ties:] - recovery * a.dt, 0.0)
    ease[:first][soft] = 0.0
    normal = slice(first + 2, None, 3)
    ease[normal] = np.maximum(-a.gaps - recovery * a.dt, 0.0)
    if a.stiffness is not None:
        compliance[normal] = 1.0 / a.stiffness
        ease[normal][np.isfinite(a.stiffness)] = 0.0
        if a.dissipation is not None:
            tau[normal] = np.where((a.gaps <= 0.0) & np.isfinite(a.stiffness), a.dissipation, 0.0)
    return Stack(problem=a, ties=ties, stops=first - ties, order=order, tau=tau, compliance=compliance, ease=ease)
