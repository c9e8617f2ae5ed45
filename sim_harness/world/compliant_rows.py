"""Rows that yield, for engines that know rigid ones only: springs at the end of the step, put into M and force.

    λ = −(g + (dt + τ_d) G v⁺) / e
    M  →  M + dt (dt + τ_d) Gᵀ E⁻¹ G            f  →  f − Gᵀ E⁻¹ (g + (dt + τ_d) G v)
Exact in any engine, up to rounding: M takes up k dt², so at 10¹⁵ N/m the balance of momentum is off by 10⁻⁸ of it. A stop that
yields presses or does not; which, is found by solving the step again until it agrees. Usual: one solve, two where
it is met or left.
"""

import msgspec
import numpy as np

from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution, Rows, Yielding

ROUNDS = 8
"""Solutions of one step at the most."""


class Folded(Record, frozen=True):
    """An engine that is asked about rigid rows only, and answers about all."""

    engine: Engine

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        rows = problem.rows
        if rows is None or not rows.yields.any():
            return self.engine.solve(problem)
        presses = ~rows.stops | (forces(rows, problem.v, problem.dt) > 0.0)
        for _ in range(ROUNDS):
            found = self.engine.solve(folded(problem, rows.yields & presses))
            pressure = forces(rows, found.v_plus, problem.dt)
            before, presses = presses, ~rows.stops | (pressure > 0.0)
            if (presses == before).all():
                break
        else:
            found = found if not found.status.ok else msgspec.structs.replace(found, status=Status.NOT_CERTIFIED)
        impulses = np.where(rows.yields & before, problem.dt * pressure, 0.0)
        if found.rows is not None:
            impulses[~rows.yields] = found.rows
        return msgspec.structs.replace(found, rows=impulses)


def taking_compliance(engine: Engine) -> Engine:
    """The engine itself where it takes rows that yield, or the same for which they are folded."""
    return engine if isinstance(engine, Yielding) else Folded(engine=engine)


def forces(rows: Rows, v: Array, dt: float) -> Array:
    """−(g + (dt + τ_d) G v) / e, 0 of rigid rows [N, N·m] (m)"""
    soft = rows.yields
    out, e = np.zeros(len(soft)), rows.compliance
    if e is not None:
        out[soft] = -(rows.g + (dt + rows.damping_times) * (rows.G @ v))[soft] / e[soft]
    return out


def folded(problem: ForwardProblem, which: Array) -> ForwardProblem:
    """The same step with these rows (m) in M and force, and no others that yield."""
    rows, dt = problem.rows, problem.dt
    assert rows is not None
    assert rows.compliance is not None
    G, rigid = rows.G[which], ~rows.yields
    weighed = dt * (dt + rows.damping_times[which]) / rows.compliance[which]
    rest = Rows(G=rows.G[rigid], g=rows.g[rigid], stops=rows.stops[rigid]) if rigid.any() else None
    return msgspec.structs.replace(
        problem,
        M=problem.M + G.T @ (weighed[:, None] * G),
        force=problem.force + G.T @ forces(rows, problem.v, dt)[which],
        rows=rest,
    )
