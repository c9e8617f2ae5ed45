"""Precompilation: tasks that compile, or load from the kernel cache, every kernel that a prediction may need.

The laws declare their kernels. The tasks `needed` cover the ticks that the requested law solves by its kernels. The tasks
`deferred` cover the rest: its Python rungs (solver attempts without a kernel), the thorough selection, the fallback laws. A
server may be ready before these are done (`idyn.prediction.loaded`).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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
from idyn.prediction.loaded import RUNGS, SELECTION
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


class CompileTasks(NamedTuple):
    """Tasks that may run in any order. parts: names of the parts that `deferred` loads, see `idyn.prediction.loaded`"""

    needed: list[CompileTask]
    deferred: list[CompileTask]
    parts: frozenset[str]


NO_TASKS = CompileTasks([], [], frozenset())


def compile_tasks(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> CompileTasks:
    """Return tasks that together compile all that `idyn.predict` may need with these settings. Deferred tasks use a twin of the
    robot, so they may run in another thread.

    The task of the tick, which needs the kernels of the others, is in the middle of `needed`: two processes that start from
    both ends reach it last.
    """
    request = _request(robot, law, options, state, contacts)
    method = workspace_for(robot, len(contacts.keys)).method(request)
    dynamics = method.problem.dynamics
    needed: list[CompileTask] = [
        partial(project, dynamics, request.q_ddot, contacts.mu, np.inf),
        partial(_kernel_rungs, request),
        partial(getattr, method, "tick"),
        partial(_kernel_rungs, msgspec.structs.replace(request, law=ContactFree())),
        partial(getattr, method, "finish_solution"),
        partial(last_forces, request, Status.SOLVED),
        partial(limit_friction, dynamics.given.fields, np.inf),
    ]
    later = _request(robot.twin(), law, options, state, contacts)
    rescuers = [each for each in RESCUERS if each.name != law.name]
    deferred: list[CompileTask] = [partial(_thorough_selection, later), partial(_python_rungs, later)]
    for rescuer in rescuers:
        asked = msgspec.structs.replace(later, law=rescuer)
        deferred += [partial(_kernel_rungs, asked), partial(_tick, asked), partial(_python_rungs, asked)]
    deferred.append(partial(_face_without_basis, later))
    if not method.starts_cold:  # every first tick is solved by the Python rungs
        needed.append(partial(_python_rungs, request))
    return CompileTasks(needed, deferred, frozenset({SELECTION, RUNGS, *(each.name for each in rescuers)}))


def _request(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> Request:
    """Return a request for zero joint accelerations, and fill the dynamics of the robot's workspace for it."""
    workspace = workspace_for(robot, len(contacts.keys))
    evaluate(robot, state, contacts, dt=DT, ground=options.ground, into=workspace.problem)
    return Request(robot, state, contacts, np.zeros(robot.na), law, DT, options, None, None, None)


def _method(request: Request) -> Method:
    return workspace_for(request.robot, len(request.contacts)).method(request)


def _kernel_rungs(request: Request) -> None:
    solve(request, Demand(q_ddot=request.q_ddot))


def _tick(request: Request) -> None:
    _ = _method(request).tick


def _thorough_selection(request: Request) -> None:
    method = _method(request)
    _ = method.choose_for_kernel, method.choose_for_solution


def _python_rungs(request: Request) -> None:
    """Run all Python rungs of a law, with limited and unlimited friction, without and with a basis."""
    law, n, method = request.law, len(request.contacts), _method(request)
    rungs = python_rungs(law)
    if not rungs:
        return
    problem = view(method.problem)
    basis: Array = np.zeros((n, law.basis_width), law.basis_type)
    for mu in (problem.mu.copy(), np.full(n, np.inf)):
        for start in (None, basis):
            for solve_rung in rungs:
                for _ in solve_rung(msgspec.structs.replace(problem, mu=mu), start):
                    pass


def _face_without_basis(request: Request) -> None:
    """Run the last step of the convex laws: determine the face from impulses without a basis. Fallback laws may need it."""
    law, n, problem = request.law, len(request.contacts), view(_method(request).problem)
    program = Program(problem.Y, problem.b, problem.energy, problem.mu, law.unlimited_friction, law.directions)
    face_at(program, np.zeros(3 * n), np.zeros(n), False)
