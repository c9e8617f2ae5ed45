"""`no-slip`: rigid contact without slip, as an LCP in the normals alone  [D15 §VI].

    0 ≤ p_N ⟂ N v⁺ + c ≥ 0        S v⁺ = T v⁺ = 0 where contacts touch        c gap speed φ/dt, at least −recovery
Closures go first, then the tangential rows are eliminated in the same way [D15 Alg. 2]; the LCP is left with one variable per
contact and a matrix of rank nv at most, for the modified principal pivoting method [D15 Alg. 1].

Different from the textbook:
- D15 holds every contact of the set sideways, also those that part or that are near and do not touch: a foot that lifts
  would drag on the air. Here a contact is held as long as it touches at the end of the step and can press. Which ones those
  are is found by solving anew: first those that would close if nothing pressed, then, until nothing changes, those that
  pressed last time. One that lifts while it is held, and presses while it is not, is wedged: it stays held, as D15 has it,
  by friction without a normal force (what is left of Lynch and Mason's sliding with infinite friction).
- A contact that touches without pressing is held when other contacts could leave it a share of their load, as on a patch
  (by least squares: its share of the smallest impulses with the same effect is positive); it is not where it cannot press at
  all, as of a block that falls along a wall.
- Of dependent tangential rows those of contacts that press come first, so friction is found where there is a normal force.
- D15's g in (54) and e in (57) have no forces: it is e = N X⁻¹ (M v(t) + dt f) with the upper left block of A⁻¹ for X⁻¹; the
  zeros in (52) are f_s and f_t.
- The gap speed, as in `lcp`; contacts with μ = 0 and stops are never held.

Modelling error: friction has no limit. Legs can jam, and a foot that would slip anywhere else stays. Where closures leave a
contact no freedom sideways they are followed, not S v⁺ = 0.
"""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative
from idyn.jit.compiled import compiled
from idyn.status import SOLVED, STATUSES, Status
from idyn.types import Array
from sim_harness.engines.contact_space import Space, contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.normals import Solver, by_pivots, by_qp
from sim_harness.engines.sticking import Stick, can_press, impulses, stick_rows, violation
from sim_harness.engines.vectors import dot, pushed

TOLERANCE = 1e-8
"""Largest violation of a step that counts as solved, relative to the fastest contact [m/s]. Usual: 1e-15."""

TOUCHES = 1e-10
"""A contact whose N v⁺ + c is below this share of the fastest contact's speed touches at the end of the step."""


class NoSlip(Kind, frozen=True, tag="no-slip"):
    """Settings of the engine.

    recovery: largest speed at which a penetration is undone [m/s], ≥ 0; see the engine `lcp`
    solver: of the LCP: ppm, qp or lemke; they agree in all motions
    """

    recovery: NonNegative = 0.05
    solver: Solver = "ppm"

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        c = np.maximum(space.problem.gaps / problem.dt, -self.recovery)
        p, status, pivots, error = settled(space, c, self.solver)
        return solution(space, p, status, pivots, error)


class Hold(NamedTuple):
    """Which contacts are held sideways (N, bool each).

    can: those with tangents; now: those held at present; first: whose rows come first
    let_go: held once and let go; wedged: held again after that, for good
    """

    can: Array
    now: Array
    first: Array
    let_go: Array
    wedged: Array


def settled(space: Space, c: Array, solver: Solver) -> tuple[Array, Status, int, float]:
    """Impulses (3N), status, pivots of all attempts, and the largest violation [m/s]; c: gap speeds (N)."""
    Y, b, mu, lengths2 = space.Y, space.b, space.problem.mu, np.ascontiguousarray(space.lengths2[2::3])
    scale = max(1.0, float(np.abs(b[2::3] + c).max(initial=0.0)))
    if solver == "qp":
        p, status, pivots, error = _settle_by_qp(Y, b, c, mu, lengths2, scale)
    else:
        p, code, pivots, error = _settle(Y, b, c, mu, lengths2, scale, solver == "lemke")
        status = STATUSES[code]
    if status.ok and not error <= TOLERANCE * scale:
        status = Status.NOT_CERTIFIED
    return p, status, pivots, error


def _settle_by_qp(Y: Array, b: Array, c: Array, mu: Array, lengths2: Array, scale: float) -> tuple[Array, Status, int, float]:
    """As `_settle`, step by step."""
    hold, pivots = first_choice(b, c, mu, scale), 0
    while True:
        stick = stick_rows(Y, b, c, in_order(hold))
        z, status, used = by_qp(stick.Y, stick.r, lengths2)
        pivots += used
        p = impulses(Y, stick, z)
        if not status.ok or not changed(hold, stick, p, scale):
            return p, status, pivots, violation(Y, b, c, p, stick.rows[stick.held.kept])


@compiled
def first_choice(b: Array, c: Array, mu: Array, scale: float) -> Hold:
    """Those that would close if nothing pressed."""
    n = len(c)
    can, now, never = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    for i in range(n):
        can[i] = mu[i] > 0.0
        now[i] = can[i] and b[3 * i + 2] + c[i] < -TOUCHES * scale
    return Hold(can, now, never.copy(), never.copy(), never.copy())


@compiled
def in_order(hold: Hold) -> Array:
    """The contacts that are held, in the order of their elimination."""
    return np.concatenate((np.flatnonzero(hold.now & hold.first), np.flatnonzero(hold.now & ~hold.first)))


@compiled
def _settle(
    Y: Array, b: Array, c: Array, mu: Array, lengths2: Array, scale: float, by_lemke: bool
) -> tuple[Array, int, int, float]:
    """Solved anew until those are held that touch and can press: impulses (3N), status, all pivots, largest violation."""
    hold, pivots = first_choice(b, c, mu, scale), 0
    while True:
        stick = stick_rows(Y, b, c, in_order(hold))
        z, status, used = by_pivots(stick.Y, stick.r, lengths2, by_lemke)
        pivots += used
        p = impulses(Y, stick, z)
        if status != SOLVED or not changed(hold, stick, p, scale):
            return p, status, pivots, violation(Y, b, c, p, stick.rows[stick.held.kept])


@compiled
def changed(hold: Hold, stick: Stick, p: Array, scale: float) -> bool:
    """Choose anew which contacts are held and whose rows come first, in place, after impulses p (3N); whether to solve again.

    It ends: no contact changes more than thrice, and the order is changed once for them.
    """
    z, touches = p[2::3].copy(), np.zeros(len(stick.r), dtype=np.bool_)
    n, x = len(z), pushed(stick.Y, z)
    for i in range(n):
        touches[i] = dot(stick.r[i], stick.Y[i], x) <= TOUCHES * scale
    # held: what presses or could; what comes back once let go is wedged
    press = can_press(stick.Y, z, touches)
    news = False
    for i in range(n):
        wanted = hold.can[i] and (press[i] or hold.wedged[i])
        if wanted != hold.now[i]:
            news = True
            if wanted and hold.let_go[i]:
                hold.wedged[i] = True
            if not wanted:
                hold.let_go[i] = True
            hold.now[i] = wanted
    # rows of what presses come first, once, where friction is found at contacts that do not
    elsewhere, ordered, pressing = False, False, False
    for i in range(n):
        elsewhere = elsewhere or (z[i] <= 0.0 and (p[3 * i] != 0.0 or p[3 * i + 1] != 0.0))
        ordered = ordered or hold.first[i]
        pressing = pressing or z[i] > 0.0
    again = news or (elsewhere and pressing and not ordered)
    if again:
        for i in range(n):
            hold.first[i] = z[i] > 0.0
    return again
