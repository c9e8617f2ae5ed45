"""Precompilation: tasks that compile, or load from the kernel cache, every kernel that a prediction may need.

The laws declare what there is to compile. For the requested law and for the fallback laws these are the compiled call of their
kernel rungs, the entry points of their Python rungs, and these rungs themselves, with limited and with unlimited friction.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from idyn.laws.contact_free import ContactFree
from idyn.laws.convex.basis import face_at
from idyn.laws.convex.rays import Program
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.fallbacks import RESCUERS
from idyn.prediction.feasible import project
from idyn.prediction.method import Method, workspace_for
from idyn.prediction.request import Request
from idyn.prediction.rungs import last_forces, python_rungs, solve
from idyn.status import Status
from idyn.terms.dynamics import evaluate
from idyn.terms.given import limit_friction
from idyn.terms.reduction import view
from idyn.types import Array, ContactSet, Demand, State

DT = 1e-3

CompileTask = Callable[[], object]
"""Function that compiles or loads kernels. Its result is not used."""


def compile_tasks(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> list[CompileTask]:
    """Return tasks that together compile all that `idyn.predict` may need with these settings. They can run in any order.

    When two processes start from both ends of the list, they reach the tick last, which needs the others.
    """
    n, workspace = len(contacts.keys), workspace_for(robot, len(contacts.keys))
    evaluate(robot, state, contacts, dt=DT, ground=options.ground, into=workspace.problem)
    request = Request(robot, state, contacts, np.zeros(robot.na), law, DT, options, None, None, None)
    dynamics, rescues = workspace.problem.dynamics, [each for each in RESCUERS if each.name != law.name]
    own = workspace.method(request)
    return [
        partial(project, dynamics, request.q_ddot, contacts.mu, np.inf),
        *(partial(_one_law, request, each) for each in (law, ContactFree())),
        partial(getattr, own, "tick"),
        *(partial(_one_law, request, each) for each in rescues),
        partial(_face_without_basis, own, law, n),
        partial(last_forces, request, Status.SOLVED),
        partial(limit_friction, dynamics.given.fields, np.inf),
    ]


def _one_law(request: Request, law: Law) -> None:
    """Run the kernels of a law, then all of its Python rungs, without and with a basis."""
    request = msgspec.structs.replace(request, law=law)
    solve(request, Demand(q_ddot=request.q_ddot))
    n, method = len(request.contacts), workspace_for(request.robot, len(request.contacts)).method(request)
    rungs = python_rungs(law)
    if not rungs:
        return
    _ = method.finish_solution
    problem = view(method.problem)
    basis: Array = np.zeros((n, law.basis_width), law.basis_type)
    for mu in (problem.mu.copy(), np.full(n, np.inf)):
        for start in (None, basis):
            for solve_rung in rungs:
                for _ in solve_rung(msgspec.structs.replace(problem, mu=mu), start):
                    pass


def _face_without_basis(method: Method, law: Law, n: int) -> None:
    """Run the last rung of the convex laws: the face from impulses without a basis. Fallback laws may need it, too."""
    problem = view(method.problem)
    program = Program(problem.Y, problem.b, problem.energy, problem.mu, law.unlimited_friction, law.directions)
    face_at(program, np.zeros(3 * n), np.zeros(n), False)
