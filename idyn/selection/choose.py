"""Selection: among the impulses that solve a law equally well, those that minimise an objective  (generalises [ZD §6.2.4]).

A law determines v⁺, and v⁺ depends on p only through J_uᵀ p. All p of the law's face with the same J_uᵀ p are solutions, and

    τ(p) = τ* − J_aᵀ (p − p*) / dt

is affine in p, so the selection is a small convex program:

    min ½‖τ(p)‖²  |  ½‖τ(p) − τ_prev‖²  |  ½‖(p − p_prev)/dt‖²  |  ½‖p/dt − f‖²       over the face

The unknowns are forces f = p/dt [N]. `idyn.selection.few` solves problems with few contacts; `idyn.selection.many`, in time
linear in the contacts, those with many contacts and those where torque limits would be exceeded.

Limits: the face is determined with a threshold (`FACE_ZERO`). If several forces give the same torque (several points on one
rigid foot), the smallest forces are selected.
"""

from idyn.jit.compiled import compiled
from idyn.laws.law import Face
from idyn.selection import few, many
from idyn.selection.aim import Aim
from idyn.selection.coordinates import choice_dimension
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

FEW = 18
"""Maximum dimension of a choice for the dense program: eight sticking feet, or thirty sliding points."""


@compiled
def choose_among_few(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """Select impulses of a face (3n), given a law's solution p (3n), by the dense program. Return them, whether they were
    found, and the dimension of the choice. The selection fails for many contacts, and if torque limits would be exceeded; then
    use `choose_thoroughly`.

    A law of unlimited friction usually has solutions within the friction cones of μ, which are physically possible: these are
    tried first, and taken unless their torque exceeds that of p.
    """
    for inside in (True, False):
        if inside and not has_impulses_in_cones(face):
            continue
        null_dim = 0 if 3 * len(face.mu) <= FEW else choice_dimension(problem.Y, face)
        if null_dim <= FEW:
            restricted = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
            chosen, found, null_dim = few.choose(problem, restricted, Aim(target, of_forces, inside), p)
            if found or null_dim == 0:
                return chosen, True, null_dim
    return p, False, 0


@compiled
def choose_thoroughly(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """Select impulses with the arguments and results of `choose_among_few`, for any number of contacts, in time linear in it.

    Torque limits are satisfied if the face permits this at reasonable cost; otherwise the excess is minimised.
    """
    for inside in (True, False):
        if inside and not has_impulses_in_cones(face):
            continue
        restricted = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
        force, found = many.choose(problem, restricted, p, Aim(target, of_forces, inside))
        if found:
            return problem.dynamics.given.dt * force, True, choice_dimension(problem.Y, face)
    return p, False, 0


@compiled
def has_impulses_in_cones(face: Face) -> bool:
    """Return whether friction is unlimited and the face may contain impulses inside the friction cones: no separating contact
    has friction, which would be outside every cone."""
    held = True
    for i in range(len(face.mu)):
        held = held and (face.flags[i, 0] or not face.flags[i, 2])
    return face.unlimited and held
