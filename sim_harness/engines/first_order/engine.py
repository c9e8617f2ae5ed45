"""`first-order`: springs and dampers at the end of the step, however stiff, and exact friction cones  [Drumwright].

    φ⁺ = φ + dt φ̇⁺        λ⁺ = −K φ⁺ − B φ̇⁺        φ̇⁺ = J v⁺        (51)–(53)
Implicit Euler in how far contacts and rows give way, semi-explicit in q and v: one evaluation of the bodies per step, first
order, and stable at any K, B and dt (L-stable: what is too stiff for dt is at rest at the end of the step). With p = dt λ
    J v⁺ + R p = −E φ / dt        R = 1/(dt² K + dt B)        E = dt K / (dt K + B)
for a row that is tied; contacts and stops press only, and friction opposes what slides with all of μ p_n at the most.

Different from the paper [its digest, §0]:
- Its quadratic programs have the smallest forces that satisfy inequalities. Where contacts share their bodies these are not its
  own springs; here they are: complementarity, one by one. `sim_harness.studies` has the paper's programs.
- M̂ Ġ v in (23) is left out: contacts without load would press. Closures keep what curvature leaves open, dt² at a time.
- Rigid rows (K = ∞) are met as other engines meet them, not by a number that is large.

Where it ends: no solution may be found where contacts jam at μ = ∞, in piles of a hundred contacts that are stiff (K dt²
beyond 1e7 of the bodies' masses) and rub, and in some 2 of 10 000 steps of a box that tumbles on the ground: the status says
so, and the answer is the nearest that was found.

Modelling error: first order in dt; springs that a step does not resolve are dead, so nothing bounces that is stiffer than
about 1/dt² of its mass. What sticks creeps at its load over B_t. A damper acts on what is near as well: with `dissipation` a
landing begins before the ground. Contacts that are taken only once they touch (`touching`) bounce by the part of a step that
they are deep.
"""

from typing import ClassVar, Literal, NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.status import STATUSES, Status
from idyn.types import Array
from sim_harness.engines.contact_space import is_sound, no_solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.first_order.cone import solve
from sim_harness.engines.first_order.convex import convexified
from sim_harness.engines.first_order.law import Table
from sim_harness.engines.first_order.methods import Rules, Ways
from sim_harness.engines.first_order.space import Bodies, Free, contact_ways, free_motion, times_transposed, velocity_after
from sim_harness.engines.items import items_of

TOLERANCE = 1e-10
"""Largest violation of the contact law of a step that counts as solved, as a share of the fastest contact or of 1 m/s."""

MOST_STEPS = 30
"""Of Newton's method at a time."""

NOTHING = 1e-200
"""Stand-in for no stiffness at all [N/m]."""


Contacts = tuple[Ways, Array, Array]
"""What `contact_ways` finds."""


class Chosen(NamedTuple):
    """What of a problem is in the table, and what is rigid: contacts (n), rows that yield or stop (m), tied rigid rows (m)."""

    contacts: Array
    soft: Array
    rigid: Array


class FirstOrder(Kind, frozen=True, tag="first-order"):
    """Settings of the engine; stiffness and dissipation of contacts that the world has none for.

    stiffness: K [N/m], > 0, may be inf; dissipation: τ_d [s], ≥ 0, B = K τ_d
    tangential: B_t [N·s/m], > 0, of friction that holds: a load F creeps at F/B_t
    friction: "cone" is Coulomb's law; "convex" its convexification, of one solution, under which what slides glides
    candidates: "near" takes all contacts that are reported, which presses what arrives to rest within its step; "touching"
        those with φ ≤ 0
    """

    stiffness: Positive = 1e9
    dissipation: NonNegative = 0.0
    tangential: Positive = 1e9
    friction: Literal["cone", "convex"] = "cone"
    candidates: Literal["near", "touching"] = "near"

    rows_at: ClassVar[float] = 0.0
    contacts_at: ClassVar[float] = 0.0

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        chosen = self.choose(problem)
        bodies, table = self.parts(problem, chosen)
        free = free_motion(bodies)
        if not (free.regular and is_sound(problem)):
            return no_solution(problem)
        contacts = contact_ways(bodies, free, table)
        found = self.impulses(bodies, free, table, contacts)
        return answer(problem, chosen, found, free.agree, velocity_after(bodies, free, *contacts[:2], found[0]))

    def impulses(self, bodies: Bodies, free: Free, table: Table, contacts: Contacts) -> tuple[Array, Status, int, float]:
        """Of the table (N, 3), status, steps and violation [m/s]."""
        ways, order, w = contacts
        begin = times_transposed(free.L, free.first, bodies.v - free.v_free)
        motion = float(np.linalg.norm(times_transposed(free.L, free.first, free.v_free)))
        scale = max(1.0, float(np.abs(w).max(initial=0.0)))
        how = convexified if self.friction == "convex" else solve
        p, code, steps, error = how(ways, table, w, begin[order], Rules(TOLERANCE * scale, motion, MOST_STEPS))
        return p, STATUSES[code], steps, error

    def choose(self, problem: ForwardProblem) -> Chosen:
        a, rows = problem, problem.rows
        contacts = np.ones(len(a.mu), dtype=bool) if self.candidates == "near" else a.gaps <= 0.0
        if rows is None:
            nothing = np.zeros(0, dtype=bool)
            return Chosen(contacts, nothing, nothing)
        rigid = ~rows.stops & ~rows.yields
        return Chosen(contacts, ~rigid, rigid)

    def parts(self, problem: ForwardProblem, chosen: Chosen) -> tuple[Bodies, Table]:
        """The bodies with all that is linked to them, contacts first; the table's weights are not yet those of the bodies."""
        a, rows, dt = problem, problem.rows, problem.dt
        J, mu, k, tau, gaps = items_of(a, chosen.contacts, chosen.soft, self.stiffness, self.dissipation)
        n, tie, e = np.count_nonzero(chosen.contacts), np.zeros(len(mu), dtype=bool), 1.0 / np.maximum(k, NOTHING)
        G, g = np.zeros((0, len(a.v))), np.zeros(0)
        if rows is not None:
            tie[n:], G, g = ~rows.stops[chosen.soft], rows.G[chosen.rigid], rows.g[chosen.rigid]
            e[n:] = 0.0 if rows.compliance is None else rows.compliance[chosen.soft]
        tau[e == 0.0] = 0.0  # what is rigid has no damping
        R = np.empty((len(mu), 2))
        R[:, 0], R[:, 1] = 1.0 / (dt * self.tangential), e / (dt * (dt + tau))
        table = Table(mu, tie, R, np.zeros((len(mu), 2)), -gaps / (dt + tau))
        return Bodies(a.M, a.v, dt * (a.force - a.h), J, G, g, dt), table


def answer(
    problem: ForwardProblem,
    chosen: Chosen,
    found: tuple[Array, Status, int, float],
    agree: bool,
    after: tuple[Array, Array, float],
) -> ForwardSolution:
    """found: impulses of the table, status, steps and violation; agree: whether rigid rows do; after: of `velocity_after`"""
    (impulses, status, steps, error), (v_plus, ties, dynamics) = found, after
    p, rows = np.zeros((len(chosen.contacts), 3)), None
    n = np.count_nonzero(chosen.contacts)
    p[chosen.contacts] = impulses[:n]
    if problem.rows is not None:
        rows = np.empty(len(problem.rows.g))
        rows[chosen.soft], rows[chosen.rigid] = impulses[n:, 2], ties
    if status.ok and not agree:
        status = Status.NOT_CERTIFIED
    return ForwardSolution(
        v_plus=v_plus,
        p=p,
        status=status if np.isfinite(dynamics) else Status.NON_FINITE,
        iterations=steps,
        dynamics=dynamics,
        contact=error,
        rows=rows,
    )
