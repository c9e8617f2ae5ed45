"""The compiled stages of one demand, from measured state to certified torques  [ZD Alg. 1 to 3], and their workspaces.

    tick             validate → dynamics → realise
    realise          feasible demand → solve_demand
    solve_demand     reduced problem → rungs (solver attempts) of the law, each followed by finish, until one is certified

A `Method` is a law with options, prepared for compiled code for a robot and a number of contacts. Each law has a `tick` and
a `solve_demand` of its own: the type of `Method.law` chooses the kernel (`idyn.laws.law.LawData`).
"""

import logging
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from idyn.certificate.certify import Demanded
from idyn.contact.ground import Ground
from idyn.contact.soft import constraints_of
from idyn.laws import LAWS
from idyn.laws.law import Law, LawData, Rung, Start, data_type, law_data
from idyn.library.kernels import compiled, entry_point
from idyn.library.records import ArrayRecord, Indices, Mask, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.feasible import nearest_demand
from idyn.prediction.finish import (
    CHANGE,
    OUT,
    REFUSED,
    Finish,
    Sizes,
    aim,
    finish,
)
from idyn.prediction.request import Request
from idyn.solvers.linalg import copy_rows
from idyn.status import NOT_CERTIFIED, RAY, SOLVED
from idyn.terms.dynamics import build_dynamics
from idyn.terms.inputs import CONTACTS, Arrays, acceptable, check_keys, finite, read_given
from idyn.terms.reduction import free_motion, reduce_problem
from idyn.terms.stages import ReducedProblem
from idyn.types import Array, Consistency, Selection

log = logging.getLogger("idyn.options")

SHORTEST_RELAXATION = 0.02  # relaxation time T_r from which standing is smooth [s]


def advice(law: Law, options: Options, dt: float) -> list[str]:
    """Return what to expect on ground that yields from each unsuitable setting, which it names. Period: dt [s]"""
    found: list[str] = []
    ground = options.ground
    if not law.predicts:
        return found
    if law.compliant:
        found.append(f"law {law.name}: it takes the ground for as stiff as its material says; on softer ground robots fall")
    elif ground.relaxation <= dt:
        found.append(
            f"ground.relaxation = {ground.relaxation:g} s: up to the period of {dt:g} s contacts are rigid; robots fall within "
            f"seconds"
        )
    elif ground.relaxation < SHORTEST_RELAXATION:
        found.append(f"ground.relaxation = {ground.relaxation:g} s: below {SHORTEST_RELAXATION:g} s feet may bounce")
    if not law.compliant and options.consistency is not Consistency.HOLD:
        found.append(f"consistency = '{options.consistency}': torques chatter by hundreds of N·m/s and more")
    elif options.selection in (Selection.TORQUE, Selection.TORQUE_CHANGE):
        found.append(f"selection = '{options.selection}': feet brace against each other and creep apart")
    elif options.selection is Selection.OFF:
        found.append("selection = 'off': torques jump between equivalent solutions")
    return found


def warn(law: Law, options: Options, dt: float) -> None:
    """Log the advice for these settings, the same words once in this process."""
    found = advice(law, options, dt)
    if found:
        _log_once("; ".join(found))


@cache
def _log_once(words: str) -> None:
    log.warning("on ground that yields: %s. With Options() robots stand in MuJoCo", words)


STATE, BEFORE = (Vector,) * 4, (Mask, Matrix, Vector, Matrix)
AIMED, START = (Vector, Vector, Matrix, Vector, Matrix), written((Mask,))  # argument types of `tick` and `solve_again`


MOST_KEPT = 32
"""Maximum number of cached workspaces of a robot, one for each number of contacts, and of cached methods of a workspace, one
for each law."""


class Method(ArrayRecord):
    """A law and options, with the problem and buffers that `idyn.prediction.solve` works on."""

    problem: ReducedProblem  # of the stages before the law, for the robot with n contacts
    law: LawData  # settings of the law; their type selects the law's kernel
    finish: Finish  # buffers of the stages after the law
    kernels: Indices  # numbers of the law's rungs (solver attempts) that are kernels
    projects_first: bool  # whether the demand is projected before solving
    closed: bool  # whether the projection forbids touching contacts to lift
    basis: Mask  # for the next tick (n, width)

    def __init__(self, problem: ReducedProblem, robot: Robot, law: Law, options: Options) -> None:
        self.options, n = options, len(problem.dynamics.given.mu)
        kernels = [rung for rung in law.rungs if rung.kernel is not None]
        self.warm_names = [rung.name for rung in kernels]
        self.cold = first_cold(kernels)
        self.cold_names = [rung.cold or rung.name for rung in kernels]
        sizes = Sizes(robot.na, len(robot.closures.keys), robot.weight)
        data = law_data(law, constraints_of(law.soft, robot))
        self.put(problem=problem, law=data, finish=Finish(problem, law, data, options, sizes))
        self.put(kernels=np.array([rung.kernel for rung in kernels], dtype=np.int64))
        self.soft = data.soft
        kind: Any = type(self)
        self.tick, self.solve_again = tick_for(kind), solve_again_for(kind)
        self.figures, self.closing, self.closes = self.finish.figures, self.finish.closing, sizes.closures > 0
        self.moment, self.turns, self.implicit = self.finish.moment, data.soft.turns, data.soft.implicit
        compliant, consistency = law.compliant, options.consistency  # compliant: all are feasible
        self.put(projects_first=consistency in (Consistency.STICK, Consistency.HOLD) and not compliant)
        width = law.basis_width if law.basis_type == np.bool_ else 0
        self.empty, self.resumes = np.zeros((n, width), np.bool_), law.basis_type == np.bool_
        self.put(closed=consistency is Consistency.HOLD, basis=self.empty.copy())

    def suits(self, options: Options) -> bool:
        """Return whether the method was created for these options. Their ground model is ignored: the workspace sets it."""
        own = self.options
        before = own.selection, own.consistency, own.force_limit
        return (options.selection, options.consistency, options.force_limit) == before


def first_cold(kernels: list[Rung]) -> int:
    """Return the number of the first rung that needs no last basis."""
    waits = Start.BASIS, Start.IMPULSES
    return next((k for k, rung in enumerate(kernels) if rung.cold or rung.start not in waits), len(kernels))


_TYPES: dict[str, type[Method]] = {}


def method_type(data: type[LawData]) -> type[Method]:
    """Return the type of the methods of a law, whose settings are records of type `data`."""
    name = f"Method[{data.__name__}]"
    if name not in _TYPES:
        _TYPES[name] = type(name, (Method,), {"__annotations__": {"law": data}, "__module__": Method.__module__})
    return _TYPES[name]


@cache
def tick_for(kind: Any) -> Callable[..., Any]:
    """Return `tick` for the methods of a law."""
    return entry_point(tick, kind, STATE, CONTACTS, BEFORE, OUT, int)


@cache
def solve_again_for(kind: Any) -> Callable[..., Any]:
    """Return `solve_again` for the methods of a law."""
    return entry_point(solve_again, kind, AIMED, START, OUT, float, int)


@cache
def kernel_for(kind: Any) -> Callable[..., Any]:
    """Return the kernel of a law by itself: `(problem, law, basis, rung) → Attempt`, as the fields of a named tuple."""
    law = kind.FIELDS["law"]
    return entry_point(law.attempt, ReducedProblem, law, written(Mask), int)


def method_types() -> list[type[Method]]:
    """Return the types of the methods of all laws."""
    kernels = dict.fromkeys(settings().build().kernel for settings in LAWS.values())
    return [method_type(data_type(kernel)) for kernel in kernels]


class Workspace:
    """Preallocated records of the stages for one robot and n contacts, and the methods that share them."""

    def __init__(self, robot: Robot, n: int) -> None:
        self.problem, self.limits = ReducedProblem(robot, n), robot.limits
        self._methods: dict[Law, Method] = {}
        self._ground: Ground | None = None
        self._dt, self._remembers = 0.0, False
        self._keys: tuple[str, ...] = ()

    def method(self, request: Request) -> Method:
        """Return the method for the law and options of the request, and set the ground model for its period.

        Raises ValueError for a period that is not finite and positive, and InputError for repeated contact keys.
        """
        keys = request.contacts.keys
        if keys is not self._keys and keys != self._keys:
            check_keys(keys)
            self._keys = keys
        law, options, dt, remembers = request.law, request.options, request.dt, request.guess is not None
        if options.ground is not self._ground or dt != self._dt or remembers is not self._remembers:
            self._set_ground(options.ground, dt, remembers)
        known = self._methods.get(law)
        if known is not None and (known.options is options or known.suits(options)):
            return known
        return self._new_method(request)

    def prepare(self, ground: Ground, dt: float, remembers: bool) -> None:
        """Write the ground model if it has changed, before the dynamics are filled."""
        if ground is not self._ground or dt != self._dt or remembers is not self._remembers:
            self._set_ground(ground, dt, remembers)

    def _set_ground(self, ground: Ground, dt: float, remembers: bool) -> None:
        """Write the ground model for a period into the problem. Raises ValueError for a malformed period."""
        given = self.problem.dynamics.given
        if ground is not self._ground or dt != self._dt:
            if not 0.0 < dt < math.inf:
                raise ValueError(f"dt: expected a finite number > 0, got {dt}")
            given.set_ground(ground, dt)
        given.set_memory(ground, dt, remembers)
        self._ground, self._dt, self._remembers = ground, dt, remembers  # after both have succeeded

    def _new_method(self, request: Request) -> Method:
        if len(self._methods) >= MOST_KEPT:
            self._methods.clear()
        if request.options.advised and request.robot.nu and len(request.contacts.keys):
            warn(request.law, request.options, request.dt)
        kind = method_type(data_type(request.law.kernel))
        self._methods[request.law] = method = kind(self.problem, request.robot, request.law, request.options)
        return method


def workspace_for(robot: Robot, n: int) -> Workspace:
    """Return the robot's workspace for n contacts. It is created once, and again if the torque limits change."""
    known = robot.scratch.get(n)
    if type(known) is Workspace and known.limits is robot.limits:
        return known
    if len(robot.scratch) >= MOST_KEPT:
        robot.scratch.clear()
    robot.scratch[n] = made = Workspace(robot, n)
    return made


NONE, MALFORMED, INFEASIBLE = -1, -2, -3
"""Values of `Outcome.rung` after a failure. NONE: no rung gave a certified solution; MALFORMED: the data are malformed;
INFEASIBLE: no feasible demand was found."""


class Outcome(NamedTuple):
    """Result of a compiled solve."""

    rung: int  # index among the method's kernels, or NONE, MALFORMED, INFEASIBLE
    status: int  # of the law
    iterations: int  # pivots or iterations of the rung
    null_dim: int  # dimension of the choice
    finished: int  # result of `finish`


OutcomeValues = tuple[int, int, int, int, int, bool]
"""Fields of an `Outcome`, then whether the basis is unchanged. Returning a named tuple to Python would cost a microsecond."""


@compiled
def tick(s: Method, state: Arrays, contacts: Arrays, before: Arrays, out: Arrays, first: int) -> OutcomeValues:
    """Run all stages for one demand. Return the fields of an `Outcome` and whether the basis is that of the last tick.

    state: (q, v, applied force, q̈); contacts: see `idyn.terms.inputs.CONTACTS`
    before: (basis, contact forces (n, 3), torques (na)) of the last tick and preferred forces (n, 3); forces in the world
    out: output arrays (p, forces (n, 3), v⁺, τ); first: index of the first kernel to try
    Without an applied force, last tick or preferred forces these arrays are empty: (0) or (0, 3).
    """
    (q, v, applied, asked), (basis, last, last_torque, preferred) = state, before
    problem, given = s.problem, s.problem.dynamics.given
    n, na = len(given.mu), len(given.model.a)
    # validate, dynamics
    given.midway, given.contact_drift = s.law.midway, given.drift and s.law.drift
    sound = basis.shape == s.basis.shape and len(asked) == na and finite(asked)
    sound = sound and (len(last) == n and len(last_torque) == na if given.remembers else len(last) == 0)
    sound = sound and (len(preferred) == 0 or (preferred.shape == (n, 3) and acceptable(preferred)))
    if not (sound and read_given(given, (q, v, applied), contacts, last)):
        return MALFORMED, SOLVED, 0, 0, REFUSED, False
    build_dynamics(problem.dynamics)
    if s.law.soft.implicit:
        copy_rows(given.own_slope, given.slope)
    aim(s.finish, (last, last_torque, preferred))
    copy_rows(basis, s.basis)
    found = realise(s, asked, s.basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, _same(basis, s.basis)


@compiled
def realise(s: Method, asked: Array, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run `solve_demand` for the demand q̈ `asked` (na) or, under `projects_first`, for the nearest feasible demand."""
    met, change = asked, 0.0
    if s.projects_first:
        given = s.problem.dynamics.given
        met, change, status = nearest_demand(s.problem.dynamics, asked, given.mu, given.touching, s.closed)
        if status != SOLVED:
            return Outcome(INFEASIBLE, SOLVED, 0, 0, REFUSED)
    s.finish.figures[CHANGE] = change
    return solve_demand(s, Demanded(asked, met, change), basis, out, first)


@compiled
def solve_demand(s: Method, demanded: Demanded, basis: Array, out: Arrays, first: int) -> Outcome:
    """Run the law's kernels from number `first` on, until a solution is certified. Each kernel starts from `basis` (n, ·) and
    overwrites it with the next basis.

    If a kernel ends with a ray, the demand is infeasible. The remaining kernels, which treat rounding errors, are not tried.
    """
    problem, status = s.problem, SOLVED
    # reduced problem; laws that do not predict need the free motion only
    if not s.law.predicts and len(problem.dynamics.G) == 0:
        free_motion(problem, demanded.met)
    else:
        reduce_problem(problem, demanded.met)
    for k in range(first, len(s.kernels)):
        # law
        tried = s.law.attempt(problem, s.law, basis, s.kernels[k])
        status = tried.status
        if status == RAY:
            break
        if status != SOLVED:
            continue
        # selection, torque, certificate
        finished, null_dim = finish(s.finish, tried.p, tried.face, (tried.multipliers, tried.epsilon), demanded, out)
        if finished != REFUSED:
            return Outcome(k, SOLVED, tried.iterations, null_dim, finished)
        status = NOT_CERTIFIED
    return Outcome(NONE, status, 0, 0, REFUSED)


@compiled
def _same(one: Array, other: Array) -> bool:
    same = True
    for i in range(one.shape[0]):
        for j in range(one.shape[1]):
            same = same and one[i, j] == other[i, j]
    return same


@compiled
def solve_again(s: Method, demand: Arrays, before: Arrays, out: Arrays, change: float, first: int) -> OutcomeValues:
    """Run `solve_demand` with the dynamics of the last `tick`.

    demand: (original demand (na), demand to realise (na), forces (n, 3) and torques (na) of the last tick, preferred forces
        (n, 3)), see `tick`
    before: tuple of the starting basis, which is overwritten
    change: change of the demand [rad/s]; first: index of the first kernel to try
    """
    (asked, met, last, last_torque, preferred), (basis,) = demand, before
    aim(s.finish, (last, last_torque, preferred))
    found = solve_demand(s, Demanded(asked, met, change), basis, out, first)
    return found.rung, found.status, found.iterations, found.null_dim, found.finished, False
