"""Contacts of unlimited friction that part: they carry nothing, and nothing is asked of their sliding.

To the letter, μ = ∞ lets a foot that just lifts hold on to the ground sideways, whatever its normal impulse, and feet that are
almost on one plane hold against one another with kilonewtons that cancel. Friction without pressure is none: so the law is
solved again without the friction of contacts that hold, but hardly press; those that part then are let go.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from idyn.compiled import compiled
from idyn.laws.law import FACE_ZERO, LawSolution, is_free
from idyn.reduction import Reduced
from idyn.types import Array

BARELY = 0.01
"""A contact whose normal impulse is a smaller share of the largest one than this hardly presses."""


def let_go(
    problem: Reduced, solution: LawSolution, unlimited: bool, solve: Callable[[Reduced], LawSolution]
) -> Iterator[LawSolution]:
    """The law's solution when contacts of unlimited friction that hardly press do not hold either; none when all press.

    solution: of the law to the letter; solve: the law for other data
    """
    mu, last = problem.mu, solution
    while last.status.ok:
        idle = hardly_press(last.p, mu, unlimited)
        if not idle.any():
            break
        mu = np.where(idle, 0.0, mu)
        last = solve(msgspec.structs.replace(problem, mu=mu))
    released = mu != problem.mu
    if not last.status.ok or not released.any():
        return
    apart = released & (_opening(problem, last.p) > FACE_ZERO)
    p, basis, face = last.p.copy(), last.basis.copy(), last.face
    p.reshape(-1, 3)[apart], basis[released] = 0.0, False
    if face is not None:  # those that stay are held again
        flags = face.flags.copy()
        flags[apart] = False
        flags[released & ~apart, 1], flags[released & ~apart, 2:] = False, True
        face = msgspec.structs.replace(face, flags=flags, mu=problem.mu)
    yield msgspec.structs.replace(last, p=p, basis=basis, face=face)


def _opening(problem: Reduced, p: Array) -> Array:
    """Speeds at which contacts open [m/s] (n)."""
    opening: Array = problem.b[2::3] + problem.Y[2::3] @ (problem.Y.T @ p)
    return opening


@compiled
def hardly_press(p: Array, mu: Array, unlimited: bool) -> Array:
    """Which contacts of unlimited friction hold sideways, but hardly press (n, bool)."""
    most = 0.0
    for i in range(len(mu)):
        most = max(most, p[3 * i + 2])
    idle = np.zeros(len(mu), dtype=np.bool_)
    for i in range(len(mu)):
        holds = p[3 * i] != 0.0 or p[3 * i + 1] != 0.0
        idle[i] = is_free(mu[i], unlimited) and holds and p[3 * i + 2] <= BARELY * most
    return idle
