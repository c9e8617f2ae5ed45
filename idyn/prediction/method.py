"""A method: one law and one set of options for one robot and number of contacts, put together for compiled code once."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from idyn.contact.ground import Ground
from idyn.jit.compiled import FLAG, MASK, MATRIX, REAL, VECTOR, WHOLE, several
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.jit.dispatch import LAWS
from idyn.jit.records import ArrayRecord, Indices, Mask, Vector
from idyn.laws.law import Law, LawData, Rung, Start, law_data
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.request import Request
from idyn.prediction.solve import FIGURES, finish_solution, keep_forces, solve_again, tick
from idyn.selection.aim import OBJECTIVES, Near, Objective
from idyn.status import Conditions
from idyn.terms.given import CONTACTS
from idyn.terms.stages import ReducedProblem
from idyn.types import Consistency

STATE, BEFORE = Lent(*[VECTOR] * 4), Lent(MASK, MATRIX, VECTOR, MATRIX)
DEMAND, AIMED, START = Lent(VECTOR, VECTOR), Lent(VECTOR, VECTOR, MATRIX, VECTOR, MATRIX), Filled(MASK)
SOLUTION, OUT = Lent(VECTOR, MASK, MATRIX, VECTOR, MATRIX, VECTOR), Filled(VECTOR, MATRIX, VECTOR, VECTOR)
"""How arrays cross into the functions of `idyn.prediction.solve`."""


MOST_KEPT = 32
"""Numbers of contacts for which a robot keeps a workspace, and laws for which a workspace keeps a method."""


class Method(ArrayRecord):
    """problem: of the robot and n contacts; law: its data, whose type stands for its kernel; kernels: numbers of its rungs

    selects, of_forces, near: whether there is a selection, and see `Objective`; most: what a contact may carry [N]
    beforehand, closed: whether the demand is made feasible first, and such that touching contacts stay
    target: of the selection (na or 3n); basis: of the next tick (n, width); closing: λ of the last answer [N·s] (3m); figures
    """

    problem: ReducedProblem
    law: LawData
    kernels: Indices
    selects: bool
    of_forces: bool
    near: int
    beforehand: bool
    closed: bool
    most: float
    target: Vector
    basis: Mask
    closing: Vector
    figures: Vector

    def __init__(self, problem: ReducedProblem, robot: Robot, law: Law, options: Options) -> None:
        self.options, n = options, len(problem.dynamics.given.mu)
        kernels = [rung for rung in law.rungs if rung.kernel is not None]
        self.warm_names = [rung.name for rung in kernels]
        self.cold = next((k for k, rung in enumerate(kernels) if _starts_cold(rung)), len(kernels))
        self.cold_names = [rung.cold or rung.name for rung in kernels]
        objective, consistency = OBJECTIVES.get(options.selection), options.consistency
        of_forces, near = objective or Objective(False, Near.ZERO)
        self.put(problem=problem, law=law_data(law), kernels=np.array([rung.kernel for rung in kernels], dtype=np.int64))
        self.put(selects=objective is not None, of_forces=of_forces, near=int(near))
        self.put(target=np.zeros(3 * n if of_forces else robot.na))
        compliant = law.conditions is Conditions.COMPLIANT  # on ground that is a spring every demand is feasible
        self.put(beforehand=consistency in (Consistency.STICK, Consistency.HOLD) and not compliant)
        self.put(closed=consistency is Consistency.HOLD, most=options.force_limit * robot.weight)
        width = law.basis_width if law.basis_type == np.bool_ else 0
        self.empty, self.resumes = np.zeros((n, width), np.bool_), law.basis_type == np.bool_
        self.put(basis=self.empty.copy(), closing=np.zeros(3 * len(robot.closures.keys)), figures=np.zeros(FIGURES))

    def suits(self, options: Options) -> bool:
        """Whether all options that matter here are as they were; the ground is the problem's."""
        own = self.options
        before = own.selection, own.consistency, own.force_limit
        return (options.selection, options.consistency, options.force_limit) == before

    @cached_property
    def tick(self) -> Callable[..., Any]:
        """`idyn.prediction.solve.tick`, compiled for this law."""
        return entrance(tick, self.TYPE, STATE, CONTACTS, BEFORE, OUT, WHOLE)

    @cached_property
    def solve_again(self) -> Callable[..., Any]:
        return entrance(solve_again, self.TYPE, AIMED, START, OUT, REAL, WHOLE)

    @cached_property
    def finish_solution(self) -> Callable[..., Any]:
        return entrance(finish_solution, self.TYPE, DEMAND, SOLUTION, OUT, several(REAL, 2), FLAG)

    @cached_property
    def keep_forces(self) -> Callable[..., Any]:
        return entrance(keep_forces, self.TYPE, DEMAND, OUT)


def _starts_cold(rung: Rung) -> bool:
    """Whether a kernel rung can be tried without a last basis or impulses."""
    return bool(rung.cold) or rung.start not in (Start.BASIS, Start.IMPULSES)


_TYPES: dict[str, type[Method]] = {}


def _type_for(data: type[LawData]) -> type[Method]:
    """The class of methods with a law of that type."""
    name = f"Method[{data.__name__}]"
    if name not in _TYPES:
        _TYPES[name] = type(name, (Method,), {"__annotations__": {"law": data}, "__module__": Method.__module__})
    return _TYPES[name]


class Workspace:
    """What a robot keeps for predictions with n contacts: the records of the stages, and the methods that use them."""

    def __init__(self, robot: Robot, n: int) -> None:
        self.problem = ReducedProblem(robot, n)
        self._methods: dict[Law, Method] = {}
        self._ground: Ground | None = None
        self._dt, self._remembers = 0.0, False

    def method(self, request: Request) -> Method:
        """The method of the request's law and options, with the ground set to what it is within the request's period. Raises
        ValueError for a period that is not finite and positive."""
        law, options, dt, remembers = request.law, request.options, request.dt, request.guess is not None
        given, new_ground = self.problem.dynamics.given, options.ground is not self._ground or dt != self._dt
        if new_ground:
            if not 0.0 < dt < math.inf:
                raise ValueError(f"dt: expected a finite number > 0, got {dt}")
            given.set_ground(options.ground, dt)
        if new_ground or remembers is not self._remembers:
            given.set_memory(options.ground, dt, remembers)
            self._ground, self._dt, self._remembers = options.ground, dt, remembers  # once all of it is set
        known = self._methods.get(law)
        if known is not None and (known.options is options or known.suits(options)):
            return known
        return self._new_method(request)

    def _new_method(self, request: Request) -> Method:
        if len(self._methods) >= MOST_KEPT:
            self._methods.clear()
        kind = _type_for(LAWS.record_for(LawData, request.law.kernel))
        self._methods[request.law] = method = kind(self.problem, request.robot, request.law, request.options)
        return method


def workspace_for(robot: Robot, n: int) -> Workspace:
    """The robot's own workspace for n contacts: predictions allocate nothing but their answers."""
    known = robot.scratch.get(n)
    if not isinstance(known, Workspace) or known.problem.limits is not robot.limits:
        if len(robot.scratch) >= MOST_KEPT:
            robot.scratch.clear()
        robot.scratch[n] = known = Workspace(robot, n)
    return known
