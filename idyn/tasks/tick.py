"""One tick of tasks in compiled code, from measured state to certified torques.

    data → dynamics → equations of the tasks → nearest motion and forces → these forces, verified as those of the law

Contacts slide along the direction of û_T of the solution for the direction that the robot has before.
"""

import numpy as np

from idyn.laws.law import SLIPS
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.prediction.finish import OUT, Finish, verify
from idyn.solvers.linalg import axpy, copy, dot, fill
from idyn.solvers.pool import empty
from idyn.tasks.held import OPEN, SLIDE, STICK, closing, solve_base
from idyn.tasks.limits import Answer, Limits, count_limits, fill_slacks, of_forces
from idyn.tasks.nearest import FEASIBLE, Pair, solve_tasks
from idyn.tasks.plan import FIRST, Plan, begin, equations_in, part_of
from idyn.terms.dynamics import build_dynamics
from idyn.terms.inputs import CONTACTS, Arrays, read_given
from idyn.terms.stages import Dynamics
from idyn.types import Array

REJECTED = -2
"""Number of a task where the data are malformed; −1: nothing is."""

MODES, APART = written((Indices, Matrix)), (Matrix, Vector)
GIVEN = (Vector, Vector, Vector), CONTACTS, (Matrix, Vector), (Vector, Matrix, Vector)
RESULTS = MODES, written((Vector, Vector)), OUT

Given = tuple[Arrays, Arrays, Arrays, Arrays]
Results = tuple[Pair, Pair, Arrays]


SolvedValues = tuple[int, int, int, bool, int, bool]
"""Number of the first task with malformed targets, `REJECTED` or −1; the fields of `Found`; whether the forces are
certified as the law's. Returning a named tuple to Python would cost a microsecond."""


@entry(Finish, Plan, GIVEN, APART, RESULTS, bool, bool)
def run_tick(f: Finish, plan: Plan, given: Given, apart: Pair, results: Results, limited: bool, solves: bool) -> SolvedValues:
    """Run one tick for the intended modes, with or without its solution. Return `SolvedValues`.

    given: (q, v, applied force (nv) or (0)); contacts, see `idyn.terms.inputs.CONTACTS`; forces of the last tick in the world
        (n, 3), or (0, 3), and its torques (na), or (0); (angles of the actuated joints (na), placements (njoints, 12), origin
        (3))
    results: (kinds of the contact modes (n), directions of sliding, of zeros (n, 2)); (block of `Equations`, q̈ (na)); of the
        prediction, filled if the forces are verified (p (3n), contact forces (n, 3), v⁺ (nv), τ (na))
    apart, limited: see `Limits`
    """
    (state, contacts, before, bodies), (modes, found, _) = given, results
    d, (force, tau) = f.problem.dynamics, before
    d.given.midway, d.given.contact_drift = False, d.given.drift
    if not read_given(d.given, state, contacts, force):
        return REJECTED, 0, 0, True, 0, False
    build_dynamics(d)
    if len(tau) == len(plan.last):
        copy(tau, plan.last)
    else:
        fill(plan.last, np.nan)
    malformed = begin(d, plan, bodies, found[0], modes[0])
    if malformed >= 0 or not solves:
        return malformed, 0, 0, True, 0, False
    return solve_modes(f, plan, apart, results, limited)


@entry(Finish, Plan, APART, RESULTS, bool)
def solve_modes(f: Finish, plan: Plan, apart: Pair, results: Results, limited: bool) -> SolvedValues:
    """Solve the tick of `run_tick` for some contact modes, whose directions of sliding are computed where all are 0."""
    (modes, (block, q_ddot), out), d = results, f.problem.dynamics
    kinds, directions = modes
    a, friction, slides, known = d.given.model.a, stack_array(directions.shape), False, False
    for i in range(len(kinds)):
        slides = slides or kinds[i] == SLIDE
        known = known or directions[i, 0] != 0.0 or directions[i, 1] != 0.0
    at = equations_in(block, plan.rows, plan.pushes, len(d.given.v), len(kinds))
    if slides and not known:
        fill(at.motion, 0.0)
        _fill_directions(d, at.motion, directions)
    fill_friction(d, plan, modes, friction)
    solved = solve_tasks(d, plan, (kinds, friction), at, apart, limited)
    if slides:
        _fill_directions(d, at.motion, directions)
        fill_friction(d, plan, modes, friction)
        solved = solve_tasks(d, plan, (kinds, friction), at, apart, limited)
    for j in range(len(q_ddot)):
        q_ddot[j] = at.motion[a[j]]
    verified = plan.verifies and verify(f, (q_ddot, at.force), out)
    return -1, solved[0], solved[1], solved[2], solved[3], verified


@compiled
def _fill_directions(d: Dynamics, motion: Array, directions: Array) -> None:
    """Fill the directions of sliding û_T of a motion v̇ (nv), 0 for speeds that count as sticking (n, 2)."""
    g, v_hat = d.given, stack_array(len(motion))
    for j in range(len(motion)):
        v_hat[j] = g.dt * motion[j] + (1.0 - g.keep) * g.v[j]
    _fill_sliding(d, v_hat, directions)


@compiled
def _fill_sliding(d: Dynamics, v_hat: Array, directions: Array) -> None:
    """Fill the directions of û_T at v̂ (nv), 0 for speeds that count as sticking (n, 2)."""
    for i in range(len(directions)):
        s, t = dot(d.J[3 * i], v_hat) + d.drift[3 * i], dot(d.J[3 * i + 1], v_hat) + d.drift[3 * i + 1]
        speed = np.sqrt(s * s + t * t)
        directions[i, 0], directions[i, 1] = (s / speed, t / speed) if speed > SLIPS else (0.0, 0.0)


@compiled
def fill_friction(d: Dynamics, plan: Plan, modes: Pair, friction: Array) -> None:
    """Fill the friction per normal force of contacts that slide (n, 2): against the direction for round cones, else μ times the
    corner of the polygon that opposes it most. 0 for unlimited friction and unknown directions."""
    (kinds, directions), corners = modes, plan.corners
    for i in range(len(kinds)):
        s, t, mu = directions[i, 0], directions[i, 1], d.given.mu[i]
        x, y = -s, -t
        if not plan.round_cones:
            least = np.inf
            for c in range(len(corners)):
                along = corners[c, 0] * s + corners[c, 1] * t
                if along < least:
                    x, y, least = corners[c, 0], corners[c, 1], along
        moves = kinds[i] == SLIDE and (s != 0.0 or t != 0.0) and mu < np.inf and plan.share < np.inf
        friction[i, 0], friction[i, 1] = (mu * x, mu * y) if moves else (0.0, 0.0)


@entry(Finish, Plan, APART, (Vector, Vector, Vector), (Indices,), MODES)
def fill_modes(f: Finish, plan: Plan, apart: Pair, answer: Arrays, intended: Arrays, out: Pair) -> bool:
    """Fill the contact modes of a prediction. A contact that is meant to slide keeps this mode while it is closed. Return
    whether the forces and torques of the prediction are within the limits for the intended modes.

    plan: after `run_tick`; answer: (v⁺ (nv), impulses p (3n), τ (na)); intended: tuple of the kinds of the intended modes (n)
    out: (kinds (n), unit directions of sliding along s and t, 0 for speeds that count as sticking (n, 2))
    """
    (v_plus, p, tau), (meant,), (kinds, directions), d = answer, intended, out, f.problem.dynamics
    g = d.given
    u, nv = g.model.u, len(g.v)
    v_hat, change, opened = stack_array(nv), stack_array(len(u)), stack_array(len(d.G))
    empty(plan.pool)
    closed = closing(d, plan.pool)
    # v̂ = v⁺ − keep v + ρ M_uu⁻¹ (J_uᵀ (p − p⁻) + G_uᵀ λ), λ: keeps chains closed
    for i in range(len(u)):
        change[i] = 0.0
        for row in range(len(p)):
            change[i] += d.J[row, u[i]] * (p[row] - g.last[row])
    solve_base(closed.L, change)
    for k in range(len(opened)):
        opened[k] = 0.0
        for i in range(len(u)):
            opened[k] += d.G[k, u[i]] * change[i]
    for k in range(len(opened)):
        axpy(-dot(closed.inverse[k], opened), closed.moved[k], change)
    for j in range(nv):
        v_hat[j] = v_plus[j] - g.keep * g.v[j]
    for i in range(len(u)):
        v_hat[u[i]] += g.rho * change[i]
    _fill_sliding(d, v_hat, directions)
    for i in range(len(kinds)):
        slips = directions[i, 0] != 0.0 or directions[i, 1] != 0.0
        if p[3 * i + 2] <= 0.0:
            kinds[i] = OPEN
        else:
            kinds[i] = SLIDE if meant[i] == SLIDE or (slips and meant[i] == STICK and g.mu[i] > 0.0) else STICK
    limits, within = Limits(plan, meant, apart[0], apart[1], True), Answer(g.v, p / g.dt, tau)
    slacks = stack_array(count_limits(limits))
    fill_slacks(d, limits, within, slacks)
    kept = True
    for number in range(len(slacks)):
        kept = kept and not (of_forces(limits, number) and slacks[number] < -FEASIBLE)
    return kept


@entry(Plan, (Vector, Indices), (Vector, Vector, Vector), float, written((Matrix, Matrix, Matrix)))
def compare(plan: Plan, found: Arrays, answer: Arrays, dt: float, out: tuple[Array, Array, Array]) -> None:
    """Fill what a solution and the law's answer achieve of the tasks.

    found: (block of `Equations`, kinds of the modes (n)); answer: (v⁺, v, p)
    out: (rows asked, held, predicted of motions (3, ·), of forces (3, ·);
        largest |held − predicted|, |asked − held|, |asked − predicted| and |asked| of each task, and its weighted sum of
        squares of asked − predicted (k, 5))
    """
    (block, kinds), (v_plus, v, p), (of_motions, of_forces, largest) = found, answer, out
    at = equations_in(block, plan.rows, plan.pushes, len(v), len(kinds))
    for k in range(len(plan.table)):
        task, first = part_of(plan, at, k), plan.table[k, FIRST]
        out_rows = of_forces if task.of_force else of_motions
        fill(largest[k], 0.0)
        for i in range(len(task.A)):
            held = predicted = task.drift[i]
            for j in range(len(task.x)):
                held += task.A[i, j] * task.x[j]
                predicted += task.A[i, j] * ((p[j] if task.of_force else v_plus[j] - v[j]) / dt)
            asked, at_row = task.asked[i], first + i
            out_rows[0, at_row], out_rows[1, at_row], out_rows[2, at_row] = asked, held, predicted
            far = abs(held - predicted), abs(asked - held), abs(asked - predicted), abs(asked)
            for c in range(4):
                largest[k, c] = max(largest[k, c], far[c])
            largest[k, 4] += (task.roots[i] * far[2]) ** 2
