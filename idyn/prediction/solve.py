"""The stages in their order, compiled: from what is measured to certified torques, for one demand  [ZD Alg. 1 to 3].

    tick             validate → dynamics → realise
    realise          feasible demand → solve_demand
    solve_demand     reduced problem → the law's rungs, each followed by finish, until one is certified
    finish           selection → torque → certificate

`tick` and `solve_demand` are compiled once for each law: the type of a method's `law` chooses the kernel (`idyn.jit.dispatch`).
A solve without a last basis begins at an empty one. Python rungs come in by `finish_solution` (`idyn.prediction.rungs`).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from idyn.certificate.certify import CERTIFIED, Answered, Claim, Demanded, certify
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
"""Instead of a rung: none is certified; the data are not sound; the demand could not be made feasible."""

REFUSED, AS_WANTED, UNSELECTED = range(3)
"""How `finish` ends: not certified; certified; certified, but only without a selection."""

BEYOND_TORQUE, BEYOND_FORCE, CHANGE, FIGURES = 6, 7, 8, 9
"""Of the figures of an answer the first six are its `Residuals`; then how far the largest torque [N·m] and the largest contact
force [N] are beyond their limits, 0 within; the change of the demand [rad/s]; and how many there are."""


class Outcome(NamedTuple):
    """rung: place among the method's kernels, or why there is none; status: of the law; null_dim: dimension of the choice
    finished: how `finish` ended"""

    rung: int
    status: int
    iterations: int
    null_dim: int
    finished: int


Told = tuple[int, int, int, int, int, bool]
"""As Python receives it: a named tuple would cost a microsecond to hand out."""


@compiled
def tick(s: "Method", state: Arrays, contacts: Arrays, before: Arrays, out: Arrays, first: int) -> Told:
    """One demand, from what is measured. Returns an `Outcome`, and whether the basis is the last one.

    state: q, v, applied or none (0), q̈; contacts: see `idyn.terms.given.CONTACTS`
    before: the last basis; the last forces (n, 3) or none (0, 3) and torques (na) or none (0), in the world, and the preferred
        forces (n, 3) or none (0, 3)
    out: p, forces (n, 3), v⁺, τ, to be filled; first: of the method's kernels
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
    """`solve_demand` for the demand asked, q̈ (na), or for the nearest feasible one where that comes first."""
    met, change = asked, 0.0
    if s.beforehand:
        given = s.problem.dynamics.given
        met, change, status = nearest_demand(s.problem.dynamics, asked, given.mu, given.touching, s.closed)
        if status != SOLVED:
            return Outcome(INFEASIBLE, SOLVED, 0, 0, REFUSED)
    s.figures[CHANGE] = change
    return solve_demand(s, Demanded(asked, met, change), basis, out, first)


@compiled
def aim(s: "Method", last: Arrays) -> None:
    """Fill the selection's target. last: the last forces (n, 3) and torques (na), the preferred forces (n, 3); each may be
    none"""
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
    """The law's kernels from `first` on, until one is certified. A ray says that the demand is impossible: the remaining ones,
    which only fight rounding errors, are not tried then. `basis` (n, ·), where they begin, is overwritten with the next."""
    problem, status = s.problem, SOLVED
    # reduced problem; a law that asks nothing of contacts needs the free motion only
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
    """From the law's impulses p (3n) to an answer in `out`; how that ended, and the dimension of the choice. Where the
    quick selection fails, the thorough one is tried; where that is not certified, the law's own impulses stay.

    face: the impulses that solve the law as well, without columns where there are none; program: multipliers (n) or none (0), ε
    """
    selects, null_dim = s.selects and face.flags.shape[1] > 0, 0
    if selects:
        chosen, found, null_dim = choose_among_few(s.problem, face, s.of_forces, s.target, p)
        if found and _certified(s, chosen, program, demanded, out):
            return AS_WANTED, null_dim
    if not _certified(s, p, program, demanded, out):
        return REFUSED, 0  # not worth any more work
    if not selects:
        return AS_WANTED, 0
    chosen, found, null_dim = choose_thoroughly(s.problem, face, s.of_forces, s.target, p)
    if found and _certified(s, chosen, program, demanded, out):
        return AS_WANTED, null_dim
    _certified(s, p, program, demanded, out)
    return UNSELECTED, 0


@compiled
def _certified(s: "Method", p: Array, program: tuple[Array, float], demanded: Demanded, out: Arrays) -> bool:
    """The stages torque and certificate: fill `out` and the figures. Whether every residual is small."""
    (impulse, force, v_plus, tau), law, figures, given = out, s.law, s.figures, s.problem.dynamics.given
    copy(p, impulse)
    recover(s.problem, p, v_plus, tau, s.closing)
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only)
    claim = Claim(law.conditions, law.directions, law.unlimited, program[0], program[1], material)
    certify(given, demanded, claim, Answered(p, v_plus, tau, s.closing, force), figures[:BEYOND_TORQUE])
    # what is beyond the limits
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, abs(tau[k]) - given.model.tau_max[k])
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            force[i, c] /= given.dt
            square += force[i, c] ** 2
        beyond = max(beyond, np.sqrt(square) - s.most)
    figures[BEYOND_TORQUE], figures[BEYOND_FORCE], figures[CHANGE] = torque, beyond, demanded.change
    small = True
    for residual in figures[:BEYOND_TORQUE]:
        small = small and residual <= CERTIFIED
    return small


@compiled
def _same(one: Array, other: Array) -> bool:
    """Whether two masks of one shape are equal."""
    same = True
    for i in range(one.shape[0]):
        for j in range(one.shape[1]):
            same = same and one[i, j] == other[i, j]
    return same


@compiled
def solve_again(s: "Method", demand: Arrays, before: Arrays, out: Arrays, change: float, first: int) -> Told:
    """`solve_demand` where the dynamics are filled. demand: asked, met, then the last forces and torques and the
    preferred forces as `tick` has them; before: where to begin, which is overwritten."""
    (asked, met, last, last_torque, preferred), (basis,) = demand, before
    aim(s, (last, last_torque, preferred))
    found = solve_demand(s, Demanded(asked, met, change), basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, False


@compiled
def finish_solution(
    s: "Method", demand: Arrays, solution: Arrays, out: Arrays, scales: tuple[float, float], unlimited: bool
) -> tuple[int, int]:
    """`finish` for impulses that Python has found. demand: asked, met; solution: p, and flags, directions, μ and friction of
    the face, multipliers; scales: change of the demand, ε"""
    (asked, met), (p, flags, directions, mu, friction, multipliers), (change, epsilon) = demand, solution, scales
    face = Face(flags, directions, mu, unlimited, friction)
    return finish(s, p, face, (multipliers, epsilon), Demanded(asked, met, change), out)


@compiled
def keep_forces(s: "Method", demand: Arrays, out: Arrays) -> None:
    """The answer to a demand with the impulses of the last tick, certified or not. demand: asked, met"""
    asked, met = demand
    reduce_problem(s.problem, met)
    _certified(s, s.problem.dynamics.given.last, (s.figures[:0], 0.0), Demanded(asked, met, 0.0), out)
