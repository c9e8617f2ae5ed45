"""Selection: among the impulses that solve a law equally well, the ones whose torque is smoothest  (generalises [ZD §6.2.4]).

A law determines v⁺, and v⁺ depends on p through J_uᵀ p only. All p of the law's face with the same J_uᵀ p are solutions, and

    τ(p) = τ* − J_aᵀ (p − p*) / dt

is affine in p, so choosing costs a small convex program:

    min ½‖τ(p)‖²  |  ½‖τ(p) − τ_prev‖²  |  ½‖(p − p_prev)/dt‖²  |  ½‖p/dt − f‖²       over the face

Works in forces f = p/dt [N]. Few contacts: `idyn.selection.few`; many, or torque limits that would be exceeded:
`idyn.selection.many`, whose cost is linear in the contacts.

Cons: the face is read off with a threshold (`FACE_ZERO`). Of forces that give the same torque (several points on one rigid
foot) small ones are taken.
"""

from collections.abc import Iterator

from idyn.laws.law import Face
from idyn.problem import Problem
from idyn.selection import few, many
from idyn.selection.aim import OBJECTIVES, Aim
from idyn.types import Array, Record

FEW = 18
"""A choice of so many dimensions goes to the dense program first: eight feet that stick, or thirty points that slide."""


class Selected(Record, frozen=True):
    """p: chosen impulses [N·s] (3n); null_dim: free dimensions of the face"""

    p: Array
    null_dim: int


def select(problem: Problem, face: Face, p: Array) -> Selected | None:
    """Choose inside `face`, starting from the law's own impulses p (3n). None when it takes `select_thoroughly`: there are many
    contacts, or torque limits would be exceeded.
    """
    for aim in _aims(problem, face):
        null_dim = 0 if 3 * len(face.mu) <= FEW else few.freedom(problem.dynamics.Y, face)
        if null_dim <= FEW:
            chosen, found, null_dim = few.choose(problem.dynamics, _seen(face, aim), p, aim)
            if found or null_dim == 0:
                return Selected(p=chosen if found else p, null_dim=null_dim)
    return None


def select_thoroughly(problem: Problem, face: Face, p: Array) -> Selected | None:
    """The same for any number of contacts, in time linear in them. Torque limits of the robot are kept when the face
    allows it at a price that is not absurd; otherwise what is beyond them is made small. None when no choice is found.
    """
    for aim in _aims(problem, face):
        force = many.choose(problem.dynamics, _seen(face, aim), p, aim)
        if force is not None:
            null_dim = few.freedom(problem.dynamics.Y, face)
            return Selected(p=problem.dt * force, null_dim=null_dim)
    return None


def _aims(problem: Problem, face: Face) -> Iterator[Aim]:
    """A law of unlimited friction has solutions inside the real cones too, as a rule: those the world can follow, so they are
    taken first, unless they cost more torque than the law's own."""
    of_forces, target_of = OBJECTIVES[problem.options.selection]
    target = target_of(problem)
    if face.unlimited and _holds_only_pressed(face):
        yield Aim(target, of_forces, inside=True)
    yield Aim(target, of_forces, inside=False)


def _seen(face: Face, aim: Aim) -> Face:
    """The face within the real friction cones, where those are the aim."""
    return face._replace(unlimited=False) if aim.inside else face


def _holds_only_pressed(face: Face) -> bool:
    """Whether no contact that parts is held: those have impulses outside every cone."""
    return bool((face.flags[:, 0] >= face.flags[:, 2]).all())
