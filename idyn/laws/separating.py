"""Contacts of unlimited friction that part: they carry nothing, and nothing is asked of their sliding.

To the letter, μ = ∞ lets a foot that just lifts hold on to the ground sideways, whatever its normal impulse, and feet that are
almost on one plane hold against one another with kilonewtons that cancel. Friction without pressure is none. So the law is
solved without the friction of contacts that hardly press, under this law or under the no-slip law; those that part are let go.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from idyn.laws.law import FACE_ZERO, LawSolution, contact_velocity
from idyn.laws.no_slip import NoSlip
from idyn.terms.reduction import Reduced
from idyn.types import Array

SLIGHT = 0.01
"""A contact whose normal impulse is a smaller share of the largest one than this hardly presses."""


def without_separating(
    problem: Reduced, letter: LawSolution, free: Array, solve: Callable[[Reduced], LawSolution]
) -> Iterator[LawSolution]:
    """The law's solutions in which contacts of unlimited friction that part carry nothing; none when all press that hold.

    letter: its solution to the letter, successful or not; free: which contacts those are (n, bool); solve: the law for others
    """
    idle, last = np.zeros_like(free), letter
    while last.status.ok:
        more = free & ~idle & hardly_presses(last.p)
        if not more.any():
            break
        idle = idle | more
        last = solve(_frictionless(problem, idle))
    if letter.status.ok and not idle.any():
        return
    if idle.any():
        yield from _parted(problem, idle, last, solve)
    idle = free & ~_presses(problem)
    if idle.any():
        yield from _parted(problem, idle, solve(_frictionless(problem, idle)), solve)


def hardly_presses(p: Array) -> Array:
    """Contacts that hold sideways all the same (n, bool)."""
    normal, sideways = p[2::3], np.abs(p[0::3]) + np.abs(p[1::3])
    hardly: Array = (sideways > 0.0) & (normal <= SLIGHT * normal.max())
    return hardly


def _presses(problem: Reduced) -> Array:
    """Contacts that carry a normal impulse under the no-slip law (n, bool); all, when it has no answer."""
    solution = NoSlip().solution(problem, None)
    return solution.basis[:, 0] if solution.status.ok else np.ones(len(problem.mu), dtype=np.bool_)


def _frictionless(problem: Reduced, idle: Array) -> Reduced:
    return msgspec.structs.replace(problem, mu=np.where(idle, 0.0, problem.mu))


def _parted(
    problem: Reduced, idle: Array, without: LawSolution, solve: Callable[[Reduced], LawSolution]
) -> Iterator[LawSolution]:
    """The solution without the friction of the idle contacts (n, bool), then one with friction for those of them that stay."""
    if not without.status.ok:
        return
    apart = idle & (opening(problem, without.p) > FACE_ZERO)
    yield _released(problem, without, apart, idle & ~apart)
    if apart.any() and (idle & ~apart).any():
        held = solve(_frictionless(problem, apart))
        if held.status.ok:
            yield _released(problem, held, apart, np.zeros_like(apart))


def _released(problem: Reduced, solution: LawSolution, apart: Array, stay: Array) -> LawSolution:
    """Without the rounding errors of what is let go; idle contacts that stay may be loaded by the selection."""
    p, basis, face = solution.p.copy(), solution.basis.copy(), solution.face
    p.reshape(-1, 3)[apart], basis[apart] = 0.0, False
    if face is not None:
        flags = face.flags.copy()
        flags[apart], flags[stay, 1], flags[stay, 2:] = False, False, True
        face = face._replace(flags=flags, mu=problem.mu)
    return msgspec.structs.replace(solution, p=p, basis=basis, face=face)


def opening(problem: Reduced, p: Array) -> Array:
    """Speeds at which contacts open [m/s] (n)."""
    u = np.empty(len(p))
    contact_velocity(problem.Y, problem.b, p, u)
    return u[2::3]
