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
- D15's g in (54) and e in (57) have no forces; v(t) there stands for v + dt M⁻¹ f, and (57) for e = N X⁻¹ (M v(t) + dt f)
  with the upper left block of A⁻¹ for X⁻¹.
- The gap speed, as in `lcp`; contacts with μ = 0 and stops are never held.

Modelling error: friction has no limit. Legs can jam, and a foot that would slip anywhere else stays. Where closures leave a
contact no freedom sideways they are followed, not S v⁺ = 0.
"""

from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from controllers.config import Kind
from idyn.compiled import compiled
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.bilateral import Held, along, orthonormalise, project, row_forces
from sim_harness.engines.contact_space import Space, contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.engines.normals import Solver, normal_impulses

TOLERANCE = 1e-8
"""Largest violation of a step that counts as solved, relative to the fastest contact [m/s]. Usual: 1e-15."""

TOUCHES = 1e-10
"""A contact whose N v⁺ + c is below this share of the fastest contact's speed touches at the end of the step."""

ROUNDING = 1e-12
"""An impulse below this share of the largest is none. Those of a QP's inactive bounds are not quite zero."""

SHARE = 1e-6
"""A contact can press when its share of the smallest impulses is more than this of the largest of them."""


class NoSlip(Kind, frozen=True, tag="no-slip"):
    """Settings of the engine.

    recovery: largest speed at which a penetration is undone [m/s], ≥ 0; see the engine `lcp`
    solver: of the LCP: ppm, qp or lemke; they agree in all motions
    max_pivots: allowance of one LCP
    """

    recovery: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    solver: Solver = "ppm"
    max_pivots: Annotated[int, msgspec.Meta(ge=1)] = 1000

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        c = np.maximum(space.problem.gaps / problem.dt, -self.recovery)
        p, status, pivots, error = settled(space, c, self.solver, self.max_pivots)
        return solution(space, p, status, pivots, error)


def settled(space: Space, c: Array, solver: Solver, max_pivots: int) -> tuple[Array, Status, int, float]:
    """Impulses (3N), status, pivots of all attempts, and the largest violation [m/s]; c: gap speeds (N)."""
    Y, b, normals = space.Y, space.b, slice(2, None, 3)
    can_hold = space.problem.mu > 0
    scale = max(1.0, float(np.abs(b[normals] + c).max(initial=0.0)))
    holds, pivots = can_hold & (b[normals] + c < -TOUCHES * scale), 0
    let_go, wedged = np.zeros_like(holds), np.zeros_like(holds)
    while True:
        stick = _stick(Y, b, c, np.flatnonzero(holds))
        z, status, used = normal_impulses(stick.Y, stick.r, space.lengths2[normals], solver, max_pivots)
        pivots += used
        z = np.where(z > ROUNDING * z.max(initial=0.0), z, 0.0)
        w = stick.r + stick.Y @ (stick.Y.T @ z)
        wanted = can_hold & (_can_press(stick.Y, z, w <= TOUCHES * scale) | wedged)
        if not status.ok or (wanted == holds).all():
            break
        wedged |= wanted & let_go
        let_go |= holds & ~wanted
        holds = wanted
    p = impulses(Y, stick, z)
    if np.any(p.reshape(-1, 3)[z <= 0.0, :2]):  # friction without pressing: those that press come first
        stick = _stick(Y, b, c, np.concatenate([np.flatnonzero(holds & (z > 0.0)), np.flatnonzero(holds & ~(z > 0.0))]))
        p = impulses(Y, stick, z)
    error = violation(Y, b, c, p, stick.rows[stick.held.kept])
    if status.ok and not error <= TOLERANCE * scale:
        status = Status.NOT_CERTIFIED
    return p, status, pivots, error


class Stick(NamedTuple):
    """The problem in the normals while some contacts are held sideways.

    rows: of S and T of those contacts, in the order of their elimination (2k)
    held, t: their directions and how fast the motion must go along them
    Y, r: N v⁺ + c = Y Yᵀ p_N + r (N, nv), (N)
    """

    rows: Array
    held: Held
    t: Array
    Y: Array
    r: Array


@compiled
def _stick(Y: Array, b: Array, c: Array, contacts: Array) -> Stick:
    n, nv = len(c), Y.shape[1]
    rows = np.zeros(2 * len(contacts), dtype=np.int64)
    X = np.zeros((len(rows), nv))
    speeds = np.zeros(len(rows))
    for k in range(len(rows)):
        rows[k] = 3 * contacts[k // 2] + k % 2
        speeds[k] = -b[rows[k]]
        for d in range(nv):
            X[k, d] = Y[rows[k], d]
    Q, kept = np.zeros((min(len(rows), nv), nv)), np.zeros(min(len(rows), nv), dtype=np.int64)
    C, rank = orthonormalise(X, Q, kept, 0)
    held = Held(Q[:rank].copy(), C[:, :rank].copy(), kept[:rank].copy())
    t = along(held, speeds)
    x = np.zeros(nv)
    for j in range(rank):
        for d in range(nv):
            x[d] += t[j] * Q[j, d]
    normals, r = np.zeros((n, nv)), np.zeros(n)
    for i in range(n):
        r[i] = b[3 * i + 2] + c[i]
        for d in range(nv):
            normals[i, d] = Y[3 * i + 2, d]
            r[i] += normals[i, d] * x[d]
        project(held.Q, normals[i])
    return Stick(rows, held, t, normals, r)


@compiled
def impulses(Y: Array, stick: Stick, z: Array) -> Array:
    """All impulses (3N) from those of the normals (N): the tangential ones make the kept rows' speeds vanish."""
    p, pressed, load = np.zeros(len(Y)), np.zeros(Y.shape[1]), stick.t.copy()
    for i in range(len(z)):
        p[3 * i + 2] = z[i]
        if z[i] != 0.0:
            for d in range(Y.shape[1]):
                pressed[d] += z[i] * Y[3 * i + 2, d]
    for j in range(len(load)):
        for d in range(Y.shape[1]):
            load[j] -= stick.held.Q[j, d] * pressed[d]
    friction = row_forces(stick.held, load)
    for k in range(len(friction)):
        p[stick.rows[k]] = friction[k]
    return p


def _can_press(Y: Array, z: Array, touches: Array) -> Array:
    """Which contacts press, or could take over a share of what others press (N, bool); Y: rows of the normals (N, nv)."""
    presses = z > 0.0
    if (touches <= presses).all() or not presses.any():
        return presses
    on = np.flatnonzero(touches | presses)
    Q, kept = np.zeros((min(len(on), Y.shape[1]), len(on))), np.zeros(min(len(on), Y.shape[1]), dtype=np.int64)
    _, rank = orthonormalise(np.ascontiguousarray(Y[on].T), Q, kept, 0)
    smallest = Q[:rank].T @ (Q[:rank] @ z[on])
    presses[on] |= smallest > SHARE * np.abs(smallest).max()
    return presses


@compiled
def violation(Y: Array, b: Array, c: Array, p: Array, held: Array) -> float:
    """The largest of |min(p_N, N v⁺ + c)| and of the speeds along the rows that are held."""
    x = np.zeros(Y.shape[1])
    for i in range(len(p)):
        if p[i] != 0.0:
            for d in range(len(x)):
                x[d] += p[i] * Y[i, d]
    worst = 0.0
    for i in range(len(c)):
        w = b[3 * i + 2] + c[i]
        for d in range(len(x)):
            w += Y[3 * i + 2, d] * x[d]
        worst = max(worst, abs(min(p[3 * i + 2], w)))
    for k in held:
        s = b[k]
        for d in range(len(x)):
            s += Y[k, d] * x[d]
        worst = max(worst, abs(s))
    return worst
