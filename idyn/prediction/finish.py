"""The last stages of a solution: selection → torque → certificate. `finish` runs the fast selection only
(`choose_among_few`). If it fails, in a few ticks of ten thousand, `choose_again` runs the thorough one for the impulses and
face that `finish` has stored."""

from typing import NamedTuple

import numpy as np

from idyn.certificate.certify import CERTIFIED, Claim, Demanded, Solution, certify
from idyn.certificate.momentum import in_world
from idyn.contact.ground import Material
from idyn.laws.law import Face, Law, LawData
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import ArrayRecord, Mask, Matrix, Vector, written
from idyn.options import Options
from idyn.selection.aim import OBJECTIVES, Near, Objective, aim_at_forces
from idyn.selection.few import choose_among_few
from idyn.selection.many import choose_thoroughly
from idyn.solvers.linalg import copy, fill
from idyn.terms.inputs import Arrays
from idyn.terms.reduction import free_motion, recover, reduce_problem
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

WITHIN = 1e-9
"""Share of a limit by which a value may exceed it and count as within: the precision of the programs that keep limits."""

REFUSED, COMPLETE, UNSELECTED = range(3)  # results of `finish`: not certified; certified; certified, but the selection failed

BEYOND_TORQUE, BEYOND_FORCE, CHANGE, FIGURES = 6, 7, 8, 9
"""Indices into `Finish.figures`, and its length. Figures 0 to 5 are the `Residuals`. BEYOND_TORQUE: largest excess of a torque
over its limit [N·m]; BEYOND_FORCE: largest excess of a contact force over the force limit [N]; both are 0 within the limits.
CHANGE: change of the demand [rad/s]."""


class Finish(ArrayRecord):
    """Input and output buffers of the last stages for one law and n contacts."""

    problem: ReducedProblem
    law: LawData  # what the certificate checks, of the class `LawData` itself
    selects: bool  # whether impulses are selected
    of_forces: bool  # see `idyn.selection.aim.Objective`, as `near`
    near: int
    force_limit: float  # maximum force of one contact [N]
    target: Vector  # of the objective (na or 3n)
    # results
    closing: Vector  # closure impulses λ of the last result [N·s] (3m)
    moment: Matrix  # contact moments in the world, if the law has them [N·m] (n, 3)
    figures: Vector  # see `FIGURES` (FIGURES)
    # face of the law's solution, written when `finish` returns UNSELECTED, for `choose_again`; see `Face`
    flags: Mask  # (n, widest), of which `width` columns are used
    width: int
    directional: Matrix  # friction (n, 2), if `has_directions`
    has_directions: bool
    unlimited_face: bool
    mu: Vector  # (n)
    multipliers: Vector  # (n), if `has_multipliers`
    has_multipliers: bool

    def __init__(self, problem: ReducedProblem, law: Law, data: LawData, options: Options, sizes: "Sizes") -> None:
        n = len(problem.dynamics.given.mu)
        objective = OBJECTIVES.get(options.selection)
        of_forces, near = objective or Objective(False, Near.ZERO)
        self.put(
            problem=problem, law=LawData(law, data.soft), selects=objective is not None, of_forces=of_forces, near=int(near)
        )
        self.put(force_limit=options.force_limit * sizes.weight, target=np.zeros(3 * n if of_forces else sizes.na))
        self.put(closing=np.zeros(3 * sizes.closures), moment=np.zeros((n, 3)), figures=np.zeros(FIGURES))
        self.put(flags=np.zeros((n, max(3, 2 + len(law.directions))), np.bool_), width=0, directional=np.zeros((n, 2)))
        self.put(has_directions=False, unlimited_face=False, mu=np.zeros(n), multipliers=np.zeros(n), has_multipliers=False)


class Sizes(NamedTuple):
    """Sizes of a robot: number of actuated velocities, number of closures, weight [N]."""

    na: int
    closures: int
    weight: float


@compiled
def aim(f: Finish, last: Arrays) -> None:
    """Fill the target of the selection.

    last: (forces (n, 3) of the last tick, torques (na) of the last tick, preferred forces (n, 3)); each may be empty
    """
    force, torque, preferred = last
    if f.of_forces:
        near = force[:0] if f.near == Near.ZERO else force if f.near == Near.LAST else preferred
        aim_at_forces(near, f.problem.dynamics.given, f.target)
    elif f.near == Near.LAST and len(torque) > 0:
        copy(torque, f.target)
    else:
        fill(f.target, 0.0)


@compiled
def finish(f: Finish, p: Array, face: Face, program: tuple[Array, float], demanded: Demanded, out: Arrays) -> tuple[int, int]:
    """Select, compute torques and certify. Fill `out`; return the result (REFUSED, COMPLETE or UNSELECTED) and the dimension
    of the choice. When it returns UNSELECTED, `out` contains the law's impulses and `f` the face, for `choose_again`.

    p: impulses of the law (3n)
    face: face of equivalent impulses; its flags have no columns if p is unique
    program: (multipliers (n) or an empty array, ε) of a convex law
    """
    selects, null_dim = f.selects and face.flags.shape[1] > 0, 0
    if selects:
        chosen, found, null_dim = choose_among_few(f.problem, face, f.of_forces, f.target, p)
        if found and _certified(f, chosen, program, demanded, out):
            return COMPLETE, null_dim
    if not _certified(f, p, program, demanded, out):
        return REFUSED, 0
    if not selects:
        return COMPLETE, 0
    _keep_face(f, face, program[0])
    return UNSELECTED, 0


@compiled
def choose_again(
    f: Finish, p: Array, face: Face, program: tuple[Array, float], demanded: Demanded, out: Arrays
) -> tuple[int, int]:
    """Select thoroughly, with the arguments of `finish`, after that has returned UNSELECTED. If this selection fails too, the
    law's impulses are used, which are certified."""
    chosen, found, null_dim = choose_thoroughly(f.problem, face, f.of_forces, f.target, p)
    if found and _certified(f, chosen, program, demanded, out):
        return COMPLETE, null_dim
    _certified(f, p, program, demanded, out)  # refill `out` with the law's impulses
    return UNSELECTED, 0


@compiled
def choose_kept(f: Finish, asked: Array, out: Arrays) -> tuple[int, int]:
    """Run `choose_again` with the face that `finish` has stored and the impulses in `out`. asked: original demand (na)"""
    n = len(f.mu)
    flags, p = stack_array((n, f.width), np.bool_), stack_array(3 * n)
    for i in range(n):
        for k in range(f.width):
            flags[i, k] = f.flags[i, k]
    copy(out[0], p)
    friction = f.directional if f.has_directions else f.directional[:0]
    multipliers = f.multipliers if f.has_multipliers else f.multipliers[:0]
    face = Face(flags, f.law.directions, f.mu, f.unlimited_face, friction)
    demanded = Demanded(asked, f.problem.q_ddot, f.figures[CHANGE])
    return choose_again(f, p, face, (multipliers, 0.0), demanded, out)


@compiled
def _keep_face(f: Finish, face: Face, multipliers: Array) -> None:
    """Store a face of the law's kernel in `f`. Faces of Python rungs are not stored, as they may have more columns."""
    f.width = min(face.flags.shape[1], f.flags.shape[1])
    for i in range(len(face.flags)):
        for k in range(f.width):
            f.flags[i, k] = face.flags[i, k]
    f.has_directions, f.has_multipliers, f.unlimited_face = len(face.friction) > 0, len(multipliers) > 0, face.unlimited
    for i in range(len(face.friction)):
        f.directional[i, 0], f.directional[i, 1] = face.friction[i, 0], face.friction[i, 1]
    copy(face.mu, f.mu)
    copy(multipliers, f.multipliers[: len(multipliers)])


@compiled
def _certified(f: Finish, p: Array, program: tuple[Array, float], demanded: Demanded, out: Arrays) -> bool:
    """Run the stages torque and certificate: fill `out` and the figures. Return whether every residual is at most
    `CERTIFIED`."""
    (impulse, force, v_plus, tau), figures, given = out, f.figures, f.problem.dynamics.given
    copy(p, impulse)
    recover(f.problem, p, v_plus, tau, f.closing)
    law = f.law
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only, law.drift)
    claim = Claim(law.conditions, law.directions, law.unlimited, program[0], program[1], material, law.soft)
    solution = Solution(p, v_plus, tau, f.problem.load, f.problem.moments, f.closing, force)
    certify(given, demanded, claim, solution, figures[:BEYOND_TORQUE])
    if law.soft.turns:
        in_world(given, f.problem.moments, f.moment)
        f.moment /= given.dt
    # impulses to forces; excess over the torque limits and the force limit
    torque, beyond = 0.0, 0.0
    for k in range(len(tau)):
        torque = max(torque, _excess(abs(tau[k]), given.model.tau_max[k]))
    for i in range(len(force)):
        square = 0.0
        for c in range(3):
            force[i, c] /= given.dt
            square += force[i, c] ** 2
        beyond = max(beyond, _excess(np.sqrt(square), f.force_limit))
    figures[BEYOND_TORQUE], figures[BEYOND_FORCE], figures[CHANGE] = torque, beyond, demanded.change
    small = True
    for residual in figures[:BEYOND_TORQUE]:
        small = small and residual <= CERTIFIED
    return small


@compiled
def _excess(value: float, limit: float) -> float:
    return value - limit if value > limit * (1.0 + WITHIN) else 0.0


DEMAND, OUT = (Vector, Vector), written((Vector, Matrix, Vector, Vector))
SOLUTION = (Vector, Mask, Matrix, Vector, Matrix, Vector)  # types of the arguments `demanded`, `out` and `solution`


@entry(Finish, DEMAND, SOLUTION, OUT, (float,) * 2, bool, bool)
def finish_solution(
    f: Finish, demand: Arrays, solution: Arrays, out: Arrays, scales: tuple[float, float], unlimited: bool, again: bool
) -> tuple[int, int]:
    """Run `finish` or, if `again`, `choose_again` for impulses of a Python rung.

    demand: (original demand (na), demand to realise (na))
    solution: (p; flags, directions, mu and friction of the face; multipliers)
    scales: (change of the demand [rad/s], ε)
    """
    (asked, met), (p, flags, directions, mu, friction, multipliers), (change, epsilon) = demand, solution, scales
    face, demanded = Face(flags, directions, mu, unlimited, friction), Demanded(asked, met, change)
    if again:
        return choose_again(f, p, face, (multipliers, epsilon), demanded, out)
    return finish(f, p, face, (multipliers, epsilon), demanded, out)


@entry(Finish, (Vector,), OUT)
def choose_for_kernel(f: Finish, demand: Arrays, out: Arrays) -> tuple[int, int]:
    """Run `choose_kept` from Python. demand: tuple of one array, the original demand (na)"""
    (asked,) = demand
    return choose_kept(f, asked, out)


@compiled
def verify(f: Finish, claimed: Arrays, out: Arrays) -> bool:
    """Fill `out` with the motion and torques for contact forces that no solver has found. Return whether they are certified as
    the law's solution for the demand, within the limits of torques and forces. Open chains only.

    claimed: (demand (na), forces in rows S, T, N (3n)). Multipliers of a convex law are 0: nothing penetrates.
    """
    (asked, force), given = claimed, f.problem.dynamics.given
    p, none = stack_array(len(force)), stack_array(len(given.mu))
    for row in range(len(p)):
        p[row] = given.dt * force[row]
    fill(none, 0.0)
    free_motion(f.problem, asked)
    certified = _certified(f, p, (none, 0.0), Demanded(asked, asked, 0.0), out)
    return certified and f.figures[BEYOND_TORQUE] <= 0.0 and f.figures[BEYOND_FORCE] <= 0.0


@entry(Finish, DEMAND, OUT)
def keep_forces(f: Finish, demand: Arrays, out: Arrays) -> None:
    """Fill `out` with the motion and torques for the impulses of the last tick, certified or not.

    demand: (original demand (na), demand to realise (na))
    """
    asked, met = demand
    reduce_problem(f.problem, met)
    _certified(f, f.problem.dynamics.given.last, (f.figures[:0], 0.0), Demanded(asked, met, 0.0), out)
