"""The compiled stages of one demand: from measured state to certified torques  [ZD Alg. 1 to 3].

    tick             validate → dynamics → realise
    realise          feasible demand → solve_demand
    solve_demand     reduced problem → rungs (solver attempts) of the law, each followed by finish, until one is certified
    finish           selection → torque → certificate

`tick` and `solve_demand` are compiled once for each law: the type of a method's `law` chooses the kernel (`idyn.jit.dispatch`).
A cold start begins with an empty basis. `finish` is in `idyn.prediction.finish`; it also follows the law's Python rungs.
"""

from typing import TYPE_CHECKING, NamedTuple

from idyn.certificate.certify import Demanded
from idyn.jit.compiled import compiled
from idyn.jit.dispatch import attempt
from idyn.prediction.feasible import nearest_demand
from idyn.prediction.finish import CHANGE, REFUSED, aim, finish
from idyn.solvers.vectors import copy_rows
from idyn.status import NOT_CERTIFIED, RAY, SOLVED, Conditions
from idyn.terms.dynamics import build_dynamics
from idyn.terms.given import Arrays, read_given
from idyn.terms.inputs import acceptable, finite
from idyn.terms.reduction import free_motion, reduce_problem
from idyn.types import Array

if TYPE_CHECKING:
    from idyn.prediction.method import Method

NONE, MALFORMED, INFEASIBLE = -1, -2, -3
"""Values of `Outcome.rung` after a failure. NONE: no rung gave a certified solution; MALFORMED: the data are malformed;
INFEASIBLE: no feasible demand was found."""


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

    state: (q, v, applied force, q̈); contacts: see `idyn.terms.given.CONTACTS`
    before: (basis, contact forces (n, 3), torques (na)) of the last tick and preferred forces (n, 3); forces in the world
    out: output arrays (p, forces (n, 3), v⁺, τ); first: index of the first kernel to try
    Without an applied force, last tick or preferred forces these arrays are empty: (0) or (0, 3).
    """
    (q, v, applied, asked), (basis, last, last_torque, preferred) = state, before
    problem, given = s.problem, s.problem.dynamics.given
    n, na = len(given.mu), len(given.model.a)
    # validate, dynamics
    given.midway, given.contact_drift = s.law.conditions == Conditions.SOFT, given.drift and s.law.drift
    sound = basis.shape == s.basis.shape and len(asked) == na and finite(asked)
    sound = sound and (len(last) == n and len(last_torque) == na if given.remembers else len(last) == 0)
    sound = sound and (len(preferred) == 0 or (preferred.shape == (n, 3) and acceptable(preferred)))
    if not (sound and read_given(given, (q, v, applied), contacts, last)):
        return MALFORMED, SOLVED, 0, 0, REFUSED, False
    build_dynamics(problem.dynamics)
    if s.law.soft.implicit:
        copy_rows(given.own_slope, given.slope)
    aim(s.finish, (last, last_torque, preferred))
    copy_rows(basis, s.basis)
    found = realise(s, asked, s.basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, _same(basis, s.basis)


@compiled
def realise(s: "Method", asked: Array, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run `solve_demand` for the demand q̈ `asked` (na) or, under `projects_first`, for the nearest feasible demand."""
    met, change = asked, 0.0
    if s.projects_first:
        given = s.problem.dynamics.given
        met, change, status = nearest_demand(s.problem.dynamics, asked, given.mu, given.touching, s.closed)
        if status != SOLVED:
            return Outcome(INFEASIBLE, SOLVED, 0, 0, REFUSED)
    s.finish.figures[CHANGE] = change
    return solve_demand(s, Demanded(asked, met, change), basis, out, first)


@compiled
def solve_demand(s: "Method", demanded: Demanded, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run the law's kernels from number `first` on, until a solution is certified. Each kernel starts from `basis` (n, ·) and
    overwrites it with the next basis.

    If a kernel ends with a ray, the demand is infeasible. The remaining kernels, which treat rounding errors, are not tried.
    """
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
        finished, null_dim = finish(s.finish, tried.p, tried.face, (tried.multipliers, 0.0), demanded, out)
        if finished != REFUSED:
            return Outcome(k, SOLVED, tried.iterations, null_dim, finished)
        status = NOT_CERTIFIED
    return Outcome(NONE, status, 0, 0, REFUSED)


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

    demand: (original demand (na), demand to realise (na), forces (n, 3) and torques (na) of the last tick, preferred forces
        (n, 3)), see `tick`
    before: tuple of the starting basis, which is overwritten
    change: change of the demand [rad/s]; first: index of the first kernel to try
    """
    (asked, met, last, last_torque, preferred), (basis,) = demand, before
    aim(s.finish, (last, last_torque, preferred))
    found = solve_demand(s, Demanded(asked, met, change), basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, False
