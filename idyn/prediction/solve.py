"""The compiled stages of one demand: from measured state to certified torques  [ZD Alg. 1 to 3].

    tick             validate → dynamics → realise
    realise          feasible demand → solve_demand
    solve_demand     reduced problem → rungs of the law, each followed by finish, until one is certified
    finish           selection → torque → certificate

`tick` and `solve_demand` are compiled once for each law: the type of a method's `law` chooses the kernel (`idyn.jit.dispatch`).
A cold start begins with an empty basis. Python rungs call `finish_solution` (`idyn.prediction.rungs`).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idyn.certificate.certify import CERTIFIED, Claim, Demanded, Solution, certify
from idyn.contact.ground import Material
from idyn.jit.compiled import compiled
from idyn.jit.dispatch import attempt
from idyn.laws.law import Face
from idyn.prediction.feasible import nearest_demand
from idyn.selection.aim import Near, aim_at_forces
from idyn.selection.choose import choose_among_few, choose_thoroughly
from idyn.solvers.linalg import copy, copy_rows
from idyn.status import NOT_CERTIFIED, RAY, SOLVED, Conditions
from idyn.terms.dynamics import build_dynamics
from idyn.terms.given import Arrays, read_given
from idyn.terms.inputs import finite
from idyn.terms.reduction import free_motion, recover, reduce_problem
from idyn.types import Array

if TYPE_CHECKING:
    from idyn.prediction.method import Method

NONE, MALFORMED, INFEASIBLE = -1, -2, -3
"""Values of `Outcome.rung` after a failure: no rung is certified; the data are malformed; no feasible demand was found."""

REFUSED, COMPLETE, UNSELECTED = range(3)
"""Results of `finish`: not certified; certified; certified, but the selection failed."""

BEYOND_TORQUE, BEYOND_FORCE, CHANGE, FIGURES = 6, 7, 8, 9
"""Indices into `Method.figures` and its length. 0 to 5: `Residuals`; then the excess of the largest torque [N·m] and of the
largest contact force [N] over their limits, 0 within; the change of the demand [rad/s]."""


class Outcome(NamedTuple):
    """Result of a compiled solve.

    rung: index among the method's kernels, or NONE, MALFORMED, INFEASIBLE; status: of the law
    iterations: pivots or iterations of the rung; null_dim: dimension of the choice; finished: result of `finish`
    """

    rung: int
    status: int
    iterations: int
    null_dim: int
    finished: int


OutcomeValues = tuple[int, int, int, int, int, bool]
"""Fields of an `Outcome`, then whether the basis is unchanged. Returning a named tuple to Python would cost a microsecond."""


@compiled
def tick(s: "Method", state: Arrays, contacts: Arrays, before: Arrays, out: Arrays, first: int) -> OutcomeValues:
    """Run all stages for one demand. Return the fields of an `Outcome` and whether the basis is that of the last tick.

    state: q, v, applied force, q̈; contacts: see `idyn.terms.given.CONTACTS`
    before: basis, contact forces (n, 3) and torques (na) of the last tick, preferred forces (n, 3); forces in the world
    out: receives p, forces (n, 3), v⁺, τ; first: index of the first kernel to try
    Without an applied force, last tick or preferred forces these arrays are empty: (0) or (0, 3).
    """
    (q, v, applied, asked), (basis, last, last_torque, preferred) = state, before
    problem, given = s.problem, s.problem.dynamics.given
    n, na = len(given.mu), len(given.model.a)
    # validate, dynamics
    sound = basis.shape == s.basis.shape and len(asked) == na and finite(asked)
    sound = sound and (len(last) == n and len(last_torque) == na if given.remembers else len(last) == 0)
    sound = sound and (len(preferred) == 0 or preferred.shape == (n, 3))
    if not (sound and read_given(given, (q, v, applied), contacts, last)):
        return MALFORMED, SOLVED, 0, 0, REFUSED, False
    build_dynamics(problem.dynamics)
    aim(s, (last, last_torque, preferred))
    copy_rows(basis, s.basis)
    found = realise(s, asked, s.basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, _same(basis, s.basis)


@compiled
def realise(s: "Method", asked: Array, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run `solve_demand` for the demand q̈ (na), or, if the method projects first, for the nearest feasible demand."""
    met, change = asked, 0.0
    if s.projects_first:
        given = s.problem.dynamics.given
        met, change, status = nearest_demand(s.problem.dynamics, asked, given.mu, given.touching, s.closed)
        if status != SOLVED:
            return Outcome(INFEASIBLE, SOLVED, 0, 0, REFUSED)
    s.figures[CHANGE] = change
    return solve_demand(s, Demanded(asked, met, change), basis, out, first)


@compiled
def aim(s: "Method", last: Arrays) -> None:
    """Fill the target of the selection. last: forces (n, 3) and torques (na) of the last tick, preferred forces (n, 3); each
    may be empty"""
    force, torque, preferred = last
    if s.of_forces:
        near = force[:0] if s.near == Near.ZERO else force if s.near == Near.LAST else preferred
        aim_at_forces(near, s.problem.dynamics.given, s.target)
    elif s.near == Near.LAST and len(torque) > 0:
        copy(torque, s.target)
    else:
        s.target[:] = 0.0


@compiled
def solve_demand(s: "Method", demanded: Demanded, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run the law's kernels from number `first` on, until one is certified. `basis` (n, ·) is their start and receives the next
    basis. After a ray the demand is infeasible: the remaining kernels, which treat rounding errors, are not tried."""
    problem, status = s.problem, SOLVED
    # reduced problem; the contact-free law needs the free motion only
    if s.law.conditions == Conditions.FREE and len(problem.dynamics.G) == 0:
        free_motion(problem, demanded.met)
    else:
        reduce_problem(problem, demanded.met)
    for k in range(first, len(s.kernels)):
        # law
        tried = attempt(problem, s.law, basis, s.kernels[k])
        status = tried.status
        if status == RAY:
            break
        if status != SOLVED:
            continue
        # selection, torque, certificate
        finished, null_dim = finish(s, tried.p, tried.face, (tried.multipliers, 0.0), demanded, out)
        if finished != REFUSED:
            return Outcome(k, SOLVED, tried.iterations, null_dim, finished)
        status = NOT_CERTIFIED
    return Outcome(NONE, status, 0, 0, REFUSED)


@compiled
def finish(s: "Method", p: Array, face: Face, program: tuple[Array, float], demanded: Demanded, out: Arrays) -> tuple[int, int]:
    """Select, compute torques and certify. Fill `out`; return the result code and the dimension of the choice.

    The quick selection is tried first, then the thorough one; if neither is certified, the law's impulses are the result.

    p: impulses of the law (3n); face: impulses that solve the law equally well, without columns if there are no others
    program: multipliers (n), empty without, and ε of a convex law
    """
    selects, null_dim = s.selects and face.flags.shape[1] > 0, 0
    if selects:
        chosen, found, null_dim = choose_among_few(s.problem, face, s.of_forces, s.target, p)
        if found and _certified(s, chosen, program, demanded, out):
            return COMPLETE, null_dim
    if not _certified(s, p, program, demanded, out):
        return REFUSED, 0
    if not selects:
        return COMPLETE, 0
    chosen, found, null_dim = choose_thoroughly(s.problem, face, s.of_forces, s.target, p)
    if found and _certified(s, chosen, program, demanded, out):
        return COMPLETE, null_dim
    # refill `out` with the law's impulses
    _certified(s, p, program, demanded, out)
    return UNSELECTED, 0


@compiled
def _certified(s: "Method", p: Array, program: tuple[Array, float], demanded: Demanded, out: Arrays) -> bool:
    """Run the stages torque and certificate: fill `out` and the figures. Return whether every residual is small."""
    (impulse, force, v_plus, tau), law, figures, given = out, s.law, s.figures, s.problem.dynamics.given
    copy(p, impulse)
    recover(s.problem, p, v_plus, tau, s.closing)
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only)
    claim = Claim(law.conditions, law.directions, law.unlimited, program[0], program[1], material)
    certify(given, demanded, claim, Solution(p, v_plus, tau, s.closing, force), figures[:BEYOND_TORQUE])
    # impulses to forces; excess over the torque limits and the force limit
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, abs(tau[k]) - given.model.tau_max[k])
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            force[i, c] /= given.dt
            square += force[i, c] ** 2
        beyond = max(beyond, np.sqrt(square) - s.force_limit)
    figures[BEYOND_TORQUE], figures[BEYOND_FORCE], figures[CHANGE] = torque, beyond, demanded.change
    small = True
    for residual in figures[:BEYOND_TORQUE]:
        small = small and residual <= CERTIFIED
    return small


@compiled
def _same(one: Array, other: Array) -> bool:
    """Return whether two masks of the same shape are equal."""
    same = True
    for i in range(one.shape[0]):
        for j in range(one.shape[1]):
            same = same and one[i, j] == other[i, j]
    return same


@compiled
def solve_again(s: "Method", demand: Arrays, before: Arrays, out: Arrays, change: float, first: int) -> OutcomeValues:
    """Run `solve_demand` with the dynamics of the last `tick`.

    demand: original demand, demand to realise, then last forces and torques and preferred forces as in `tick`
    before: starting basis, which is overwritten
    """
    (asked, met, last, last_torque, preferred), (basis,) = demand, before
    aim(s, (last, last_torque, preferred))
    found = solve_demand(s, Demanded(asked, met, change), basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, False


@compiled
def finish_solution(
    s: "Method", demand: Arrays, solution: Arrays, out: Arrays, scales: tuple[float, float], unlimited: bool
) -> tuple[int, int]:
    """Run `finish` for impulses of a Python rung.

    demand: original demand, demand to realise; scales: change of the demand, ε
    solution: p; flags, directions, μ and friction of the face; multipliers
    """
    (asked, met), (p, flags, directions, mu, friction, multipliers), (change, epsilon) = demand, solution, scales
    face = Face(flags, directions, mu, unlimited, friction)
    return finish(s, p, face, (multipliers, epsilon), Demanded(asked, met, change), out)


@compiled
def keep_forces(s: "Method", demand: Arrays, out: Arrays) -> None:
    """Fill `out` with the motion and torques for the impulses of the last tick, certified or not.

    demand: original demand, demand to realise
    """
    asked, met = demand
    reduce_problem(s.problem, met)
    _certified(s, s.problem.dynamics.given.last, (s.figures[:0], 0.0), Demanded(asked, met, 0.0), out)
