"""Release of separating contacts with unlimited friction: they carry no impulse and may slide.

Applied literally, μ = ∞ lets a lifting foot carry tangential impulses without a normal impulse, and feet almost on one plane
press against each other with kilonewtons that cancel. Without normal force there is no friction. So the law is solved again
without friction at contacts that are barely loaded under this law or under the no-slip law. Those of them that then separate
are released.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from idyn.laws.law import FACE_ZERO, Attempt, contact_velocity
from idyn.laws.no_slip import NoSlip
from idyn.status import SOLVED
from idyn.terms.reduction import Reduced
from idyn.types import Array

BARELY = 0.01
"""A contact is barely loaded if its normal impulse is at most this share of the largest one."""


def without_separating(
    problem: Reduced, literal: Attempt, free: Array, solve: Callable[[Reduced], Attempt]
) -> Iterator[Attempt]:
    """Yield solutions of the law in which separating contacts of unlimited friction carry no impulse. No solution is yielded if
    no contact with friction is barely loaded.

    literal: solution of the law without release, successful or not
    free: whether a contact has unlimited friction (n, bool)
    solve: function that solves the law for a problem with other friction coefficients
    """
    idle, last = np.zeros_like(free), literal
    while last.status == SOLVED:
        more = free & ~idle & barely_loaded(last.p)
        if not more.any():
            break
        idle = idle | more
        last = solve(_frictionless(problem, idle))
    if literal.status == SOLVED and not idle.any():
        return
    if idle.any():
        yield from _with_released(problem, idle, last, solve)
    idle = free & ~_loaded_under_no_slip(problem)
    if idle.any():
        yield from _with_released(problem, idle, solve(_frictionless(problem, idle)), solve)


def barely_loaded(p: Array) -> Array:
    """Return which contacts are barely loaded and have a tangential impulse (n, bool)."""
    normal, sideways = p[2::3], np.abs(p[0::3]) + np.abs(p[1::3])
    hardly: Array = (sideways > 0.0) & (normal <= BARELY * normal.max())
    return hardly


def _loaded_under_no_slip(problem: Reduced) -> Array:
    """Return which contacts carry a normal impulse under the no-slip law (n, bool); all, if it has no solution."""
    solution = NoSlip().solution(problem, None)
    return solution.basis[:, 0] if solution.status == SOLVED else np.ones(len(problem.mu), dtype=np.bool_)


def _frictionless(problem: Reduced, idle: Array) -> Reduced:
    return msgspec.structs.replace(problem, mu=np.where(idle, 0.0, problem.mu))


def _with_released(problem: Reduced, idle: Array, without: Attempt, solve: Callable[[Reduced], Attempt]) -> Iterator[Attempt]:
    """Yield solutions in which separating contacts are released: first `without`, the solution without friction at the idle
    contacts (n, bool), then one with friction at the idle contacts that remain closed in the first solution."""
    if without.status != SOLVED:
        return
    apart = idle & (opening(problem, without.p) > FACE_ZERO)
    yield _release(problem, without, apart, idle & ~apart)
    if apart.any() and (idle & ~apart).any():
        held = solve(_frictionless(problem, apart))
        if held.status == SOLVED:
            yield _release(problem, held, apart, np.zeros_like(apart))


def _release(problem: Reduced, solution: Attempt, apart: Array, stay: Array) -> Attempt:
    """Return the solution with zero impulses at the contacts `apart` (n, bool), which separate. The selection may load the
    contacts `stay` (n, bool), which had no friction but remain closed."""
    p, basis, face, flags = solution.p.copy(), solution.basis.copy(), solution.face, solution.face.flags.copy()
    p.reshape(-1, 3)[apart], basis[apart] = 0.0, False
    if flags.shape[1]:
        flags[apart], flags[stay, 1], flags[stay, 2:] = False, False, True
        face = face._replace(flags=flags, mu=problem.mu)
    return solution._replace(p=p, basis=basis, face=face)


def opening(problem: Reduced, p: Array) -> Array:
    """Return the opening speeds of the contacts for impulses p (3n) [m/s] (n)."""
    u = np.empty(len(p))
    contact_velocity(problem.Y, problem.b, p, u)
    return u[2::3]
