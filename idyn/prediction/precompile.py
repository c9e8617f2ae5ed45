"""Every way that a prediction may take, gone once: what a kernel needs is compiled then, and read from the disk.

Data that lead a prediction down to the last rung of the ladder are hard to make up; here its parts are called one by one, the
rescuers' and all their rungs among them, with friction that has a limit and friction that has none.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from idyn.laws.convex.basis import face_at
from idyn.laws.convex.rays import Program
from idyn.laws.law import Face, Law, LawSolution
from idyn.laws.no_slip import NoSlip
from idyn.model.robot import Robot
from idyn.prediction.fallbacks import RESCUERS
from idyn.prediction.feasible import project
from idyn.prediction.recovery import conclude
from idyn.prediction.steady import Steady
from idyn.problem import Options, Problem
from idyn.selection.choose import Selected, select, select_thoroughly
from idyn.status import Status
from idyn.terms.dynamics import evaluate, record_for
from idyn.terms.reduction import Reduced, reduce
from idyn.types import Array, ContactSet, Demand, Selection, State

DT = 1e-3

Way = Callable[[], object]


def all_ways(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> list[Way]:
    """Pieces of work that together compile all that `idyn.prediction.predict.predict` may need under these settings, in
    whatever order they are done; nothing else comes of them. Two who begin at both ends come to the steady tick, which needs
    the first as well as the last, when those are done."""
    n, demand, selects = len(contacts), np.zeros(robot.na), options.selection is not Selection.OFF
    dynamics = record_for(robot, n)
    evaluate(robot, state, contacts, dt=DT, ground=options.ground, into=dynamics)
    problem = Problem(
        robot=robot,
        state=state,
        contacts=contacts,
        dynamics=dynamics,
        q_ddot=demand,
        dt=DT,
        options=options,
        guess=None,
        applied=None,
        preferred=None,
    )
    return [
        partial(project, dynamics, demand, contacts.mu, np.inf),
        *(partial(_all_rungs, problem, each) for each in (NoSlip(), law)),
        partial(Steady, dynamics, law, options, robot.weight),
        *(partial(_all_rungs, problem, rescuer) for rescuer in RESCUERS),
        partial(_face_without_basis, problem, law),
        *(partial(_selected, problem, law, choose) for choose in (select_thoroughly, select) if n > 0 and selects),
        partial(_concluded, problem, law),
    ]


def _all_rungs(problem: Problem, law: Law) -> None:
    """Also those that come after the one that answers; and from a basis."""
    reduced = reduce(problem.dynamics, problem.q_ddot)
    for mu in (reduced.mu.copy(), np.full(len(reduced.mu), np.inf)):
        _exhaust(law, msgspec.structs.replace(reduced, mu=mu))


def _exhaust(law: Law, reduced: Reduced) -> None:
    basis = np.zeros((len(reduced.mu), law.basis_width), dtype=np.bool_)
    for start in (None, basis):
        for _ in law.attempts(reduced, start):
            pass


def _face_without_basis(problem: Problem, law: Law) -> None:
    """The convex laws' last resort: read off impulses that no basis gives."""
    n, reduced = len(problem.contacts), reduce(problem.dynamics, problem.q_ddot)
    program = Program(reduced.Y, reduced.b, reduced.energy, reduced.mu, law.unlimited_friction, law.directions)
    face_at(program, np.zeros(3 * n), np.zeros(n), False)


def _concluded(problem: Problem, law: Law) -> None:
    p, none = np.zeros(3 * len(problem.contacts)), np.zeros((len(problem.contacts), 0), dtype=np.bool_)
    reduce(problem.dynamics, problem.q_ddot)
    solution = LawSolution(p=p, face=None, status=Status.SOLVED, iterations=0, basis=none)
    conclude(problem, law, "", solution, Selected(p=p, null_dim=0), Demand(q_ddot=problem.q_ddot))


def _selected(problem: Problem, law: Law, choose: Callable[[Problem, Face, Array], Selected | None]) -> None:
    """From the face on which all contacts may stick."""
    n, k = len(problem.contacts), len(law.directions)
    flags = np.zeros((n, 2 + k), dtype=np.bool_)
    flags[:, 0], flags[:, 2:] = True, True
    reduce(problem.dynamics, problem.q_ddot)
    choose(problem, Face(flags, law.directions, problem.dynamics.mu, law.unlimited_friction), np.zeros(3 * n))
