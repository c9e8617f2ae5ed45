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

from idyn.jit.compiled import compiled
from idyn.laws.law import Face
from idyn.selection import few, many
from idyn.selection.aim import Aim
from idyn.selection.coordinates import freedom
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

FEW = 18
"""A choice of so many dimensions goes to the dense program first: eight feet that stick, or thirty points that slide."""


@compiled
def choose_among_few(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """Impulses inside a face (3n), from the law's own p (3n); whether they were chosen, and the dimension of the choice. They
    are not where there are many contacts, or where torque limits would be exceeded: then `choose_thoroughly` takes over.

    A law of unlimited friction has solutions inside the real cones too, as a rule: those the world can follow, so they are
    taken first, unless they cost more torque than the law's own.
    """
    for inside in (True, False):
        if inside and not reaches_inside(face):
            continue
        null_dim = 0 if 3 * len(face.mu) <= FEW else freedom(problem.Y, face)
        if null_dim <= FEW:
            seen = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
            chosen, found, null_dim = few.choose(problem, seen, Aim(target, of_forces, inside), p)
            if found or null_dim == 0:
                return chosen, True, null_dim
    return p, False, 0


@compiled
def choose_thoroughly(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """The same for any number of contacts, in time linear in them. Torque limits of the robot are kept when the face allows it
    at a price that is not absurd; otherwise what is beyond them is made small. Not chosen when nothing is found."""
    for inside in (True, False):
        if inside and not reaches_inside(face):
            continue
        seen = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
        force, found = many.choose(problem, seen, p, Aim(target, of_forces, inside))
        if found:
            return problem.dynamics.given.dt * force, True, freedom(problem.Y, face)
    return p, False, 0


@compiled
def reaches_inside(face: Face) -> bool:
    """Whether the law's friction is unlimited and no contact that parts is held: those have impulses outside every cone."""
    held = True
    for i in range(len(face.mu)):
        held = held and (face.flags[i, 0] or not face.flags[i, 2])
    return face.unlimited and held
