"""Precompilation: tasks that compile, or load from the kernel cache, every kernel that a prediction may need.

The laws declare their kernels. The tasks `needed` cover the ticks that the requested law solves by its kernels. The tasks
`deferred` cover the rest: its Python rungs (solver attempts without a kernel), the thorough selection, the fallback laws. A
server may be ready before these are done (`idyn.prediction.rungs`).
"""

from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.jit.compiled import FLAG, MASK, REAL, VECTOR, WHOLE, CompileTask
from idyn.jit.entry import entry_point
from idyn.laws.convex_basis import face_at
from idyn.laws.convex_program import Program
from idyn.laws.law import Law
from idyn.laws.sensed import ContactFree
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.feasible import nearest_demand
from idyn.prediction.predict import RESCUERS, given_torques
from idyn.prediction.request import Request
from idyn.prediction.rungs import RUNGS, SELECTION, method_of, python_rungs
from idyn.prediction.solve import Method
from idyn.terms.dynamics import evaluate
from idyn.terms.inputs import limit_friction
from idyn.terms.reduction import Reduced, reduce_problem, view
from idyn.terms.stages import Dynamics, Given, ReducedProblem
from idyn.types import Array, ContactSet, State

DT = 1e-3


class CompileTasks(NamedTuple):
    """Tasks that may run in any order. parts: names of the parts that `deferred` loads, see `idyn.prediction.rungs`"""

    needed: list[CompileTask]
    deferred: list[CompileTask]
    parts: frozenset[str]


NO_TASKS = CompileTasks([], [], frozenset())


def compile_tasks(robot: Robot, law: Law, options: Options, state: State, contacts: ContactSet) -> CompileTasks:
    """Return tasks that together compile all that `idyn.predict` may need with these settings. This call compiles nothing.
    Deferred tasks use a twin of the robot, so they may run in another thread.

    The tasks of the tick, which needs the kernels of the others, are in the middle of `needed`: two processes that start from
    both ends reach them last.
    """
    request = Request(robot, state, contacts, np.zeros(robot.na), law, DT, options, None, None, None)
    later = msgspec.structs.replace(request, robot=robot.twin())
    method, free = method_of(request), method_of(msgspec.structs.replace(request, law=ContactFree()))
    needed: list[CompileTask] = [
        partial(_evaluated, request),
        partial(entry_point, nearest_demand, Dynamics.TYPE, VECTOR, VECTOR, REAL, FLAG),
        partial(entry_point, reduce_problem, ReducedProblem.TYPE, VECTOR),
        partial(getattr, method, "tick"),
        partial(getattr, method, "solve_again"),
        partial(getattr, free, "solve_again"),
        partial(entry_point, law.kernel, ReducedProblem.TYPE, type(method.law).TYPE, MASK, WHOLE),
        partial(getattr, method, "finish_solution"),
        partial(getattr, method, "keep_forces"),
        partial(entry_point, limit_friction, Given.TYPE, REAL),
    ]
    if law.takes_torques:
        needed.append(given_torques)
    rescuers = [each for each in RESCUERS if each.name != law.name]
    deferred: list[CompileTask] = [partial(_thorough_selection, later), partial(_python_rungs, later)]
    for rescuer in rescuers:
        asked = msgspec.structs.replace(later, law=rescuer)
        deferred += [partial(_kernels, asked), partial(_python_rungs, asked)]
    deferred.append(partial(_face_without_basis, later))
    if not method.starts_cold:  # every first tick is solved by the Python rungs
        needed.append(partial(_python_rungs, request))
    return CompileTasks(needed, deferred, frozenset({SELECTION, RUNGS, *(each.name for each in rescuers)}))


def _evaluated(request: Request) -> Method:
    method = method_of(request)
    evaluate(request.robot, request.state, request.contacts, dt=DT, ground=request.options.ground, into=method.problem)
    return method


def _kernels(request: Request) -> None:
    method = method_of(request)
    _ = method.solve_again, method.tick


def _thorough_selection(request: Request) -> None:
    method = method_of(request)
    _ = method.choose_for_kernel, method.choose_for_solution


def _reduced(request: Request) -> Reduced:
    problem = _evaluated(request).problem
    reduce_problem(problem.fields, request.q_ddot)
    return view(problem)


def _python_rungs(request: Request) -> None:
    """Run all Python rungs of a law, with limited and unlimited friction, without and with a basis."""
    law, n, rungs = request.law, len(request.contacts), python_rungs(request.law)
    if not rungs:
        return
    problem = _reduced(request)
    basis: Array = np.zeros((n, law.basis_width), law.basis_type)
    for mu in (problem.mu.copy(), np.full(n, np.inf)):
        for start in (None, basis):
            for solve_rung in rungs:
                for _ in solve_rung(msgspec.structs.replace(problem, mu=mu), start):
                    pass


def _face_without_basis(request: Request) -> None:
    """Run the last step of the convex laws: determine the face from impulses without a basis. Fallback laws may need it."""
    law, n, problem = request.law, len(request.contacts), _reduced(request)
    program = Program(problem.Y, problem.b, problem.energy, problem.mu, law.unlimited_friction, law.directions)
    face_at(program, np.zeros(3 * n), np.zeros(n), False)
