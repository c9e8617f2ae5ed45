"""A stack of tasks for kernels: which equations it has, where their numbers are, and its limits.

A plan depends on the structure of a stack: kinds, frames, joints, numbers of contacts, levels, which targets there are. It is
kept with the robot.
Weights, gains and targets are read in every tick, from the users' arrays. For a stack that is passed again this is one copy,
for another one of the same structure it takes some microseconds.
"""

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import InputError, nearest
from idyn.laws.law import Law, polygon
from idyn.library.kernels import compiled
from idyn.library.records import ArrayRecord, Flags, Indices, Matrix, Spans, Vector
from idyn.model.robot import Robot
from idyn.solvers.linalg import copy, fill
from idyn.solvers.pool import Pool
from idyn.tasks.centre import fill_centre
from idyn.tasks.forces import ContactTask, fill_forces_of
from idyn.tasks.frames import fill_frame, fill_joints
from idyn.tasks.held import OPEN, STICK
from idyn.tasks.motion import CENTRE, JOINTS, LOCAL, NORMAL, PYTHON, MotionTask, Part, Place
from idyn.tasks.read import Read, checked_target, gains, roots_of
from idyn.tasks.stack import TaskLimits, TaskStack
from idyn.terms.drift import Motions, body_motions
from idyn.terms.inputs import finite
from idyn.terms.stages import Dynamics
from idyn.types import Array

ROUND = polygon(8)
"""Corners of the polygon that stands for the friction cone of laws with round cones."""

MOST_PLANS = 16

NO_PLACES = np.zeros(0, np.int64)

EXTRA = 16
"""Number of active limits beyond that of the coordinates: those that nothing meets together."""

POOL = 6
"""Numbers in the pool per square of the number of coordinates and equations."""

KIND, JOINT, FIRST, COUNT, WHICH, ROOTS, GAINS = range(7)
"""Columns of `Plan.table`: kind, joint of the frame or number of contacts, first row, number of rows, beginning of `which`,
of the weights; begin and end of the gains. Begin and end of up to four targets follow, equal ones for absent targets."""

COLUMNS = GAINS + 10

TIME_CONSTANT, EXCESS = 0.008, 1.0
"""Time constant with which speeds of the joints in `TaskLimits.angles`, and of links towards each other, follow what their
bounds permit, at least the period [s]: noise ε of measured speeds changes these bounds by ε/TIME_CONSTANT only. What a speed
exceeds its bound by more than `EXCESS` is braked at once [rad/s, m/s]. Other joints have the period: they may use their whole
range."""


class Equations(NamedTuple):
    """Equations of the tasks with their solution: views of one block of memory, a new one for each tick."""

    A: Array  # of motions, on v̇ (r, nv)
    values: Array  # rows asked, drift, square roots of the weights (3, r)
    F: Array  # of forces, on f, rows S, T, N (c, 3n)
    pushes: Array  # (3, c)
    motion: Array  # v̇ (nv)
    force: Array  # f (3n)
    tick: Array  # `Given.ticks` of their tick; number of damped rows, see `TaskLimits.singular` (2)


@compiled
def equations_in(block: Array, rows: int, pushes: int, nv: int, n: int) -> Equations:
    """Return the equations in a block of `Plan.size` numbers. rows, pushes: numbers of equations; n: of contacts"""
    a, width = rows * nv, 3 * n
    b, c, d = a + 3 * rows, a + 3 * rows + pushes * width, a + 3 * rows + pushes * (width + 3)
    A, values = block[:a].reshape((rows, nv)), block[a:b].reshape((3, rows))
    F, asked = block[b:c].reshape((pushes, width)), block[c:d].reshape((3, pushes))
    e = d + nv + width
    return Equations(A, values, F, asked, block[d : d + nv], block[d + nv : e], block[e : e + 2])


_NO_LIMITS: tuple[Any, Any, Any] = None, None, None


class Plan(ArrayRecord):
    """Plan of a stack for a robot and n contacts.

    spans: begin and end of the equations of each task, in order of their levels, of motions and of forces each one below the
        other; counts: numbers of equations of motions, of forces
    by_python: whether Python fills some of them; size: of the block of `Equations`
    key: what it depends on besides the robot; holder: of the data of the last tick in its arrays
    none: numbers and multipliers of no active limit
    """

    table: Spans  # of each task, see `KIND` and the others (k, COLUMNS)
    which: Indices  # see `Place`
    modes: Indices  # intended kinds of the contact modes, −1: stick if the contact touches (n)
    offsets: Matrix  # axes and origin of each task's frame in its joint frame (k, 12)
    numbers: Vector  # of all tasks
    gravity: Vector  # [m/s²] (3)
    velocities: Matrix  # of the bodies, see `Motions` (njoints, 6)
    biases: Matrix
    last: Vector  # torques of the last tick, NaN without one (na)
    pool: Pool  # memory of `idyn.tasks.nearest`
    ends: Indices  # of the rows of each level: of motions, of forces
    ends_of_forces: Indices
    rows: int  # numbers of equations: of motions, of forces
    pushes: int
    # results of `idyn.tasks.tick`: numbers of the active limits (Q), their multipliers of each level (levels, Q), whether they
    # are named (Q)
    active: Indices
    multipliers: Matrix
    missed: Flags
    # limits
    corners: Matrix  # of the friction polygon (·, 2)
    angles_min: Vector  # of the joints (na)
    angles_max: Vector
    time_constants: Vector  # `TIME_CONSTANT`, or 0 of joints that `TaskLimits.angles` does not name [s] (na)
    speed_max: Vector
    slowest: Vector  # least and largest accelerations [rad/s²] (na)
    fastest: Vector
    most: Vector  # torques [N·m] (na)
    reach: Vector  # friction coefficients that may be used (n)
    least: float  # normal force [N]
    smaller: float  # see `TaskLimits.pressure_margin`
    share: float  # of the friction coefficients that may be used; ∞: no limit
    braking: float
    acceleration: float
    of_joints: bool  # whether limits of the joints hold
    singular: float  # see `TaskLimits`
    mass: float  # of the robot [kg]
    # the law
    round_cones: bool
    verifies: bool  # whether forces of the solution may be verified as those of the law

    def __init__(
        self, robot: Robot, tasks: Sequence[MotionTask | ContactTask], structures: Sequence[Hashable], key: tuple[Any, ...]
    ) -> None:
        """key: number of contacts n, then of each task what `Stacked` tells apart"""
        self.spans, self.limited, self.key, n = list[tuple[int, int]](), _NO_LIMITS, key, key[0]
        self.holder: object = None
        table, offsets, which, at, counts, ends = [], [], list[int](), 0, [0, 0], dict[int, tuple[int, int]]()
        for task, structure in zip(tasks, structures, strict=True):
            of_force, count = isinstance(task, ContactTask), task.count(robot)
            first, row = counts[of_force], [PYTHON, 0, counts[of_force], count, len(which), at]
            self.spans.append((first, first + count))
            counts[of_force] += count
            ends[task.level], at = (counts[0], counts[1]), at + count
            place = Place(PYTHON, NO_PLACES) if structure is None else task.place(robot)
            row[KIND], row[JOINT] = place.kind, place.joint
            factors = 2 * (task.COMPONENTS or count) if isinstance(task, MotionTask) else 0
            for size in (factors, *(0 if given is None else size for _, given, size in task.targets(count))):
                row += at, at + (0 if structure is None else size)
                at = row[-1]
            table.append(row + [at] * (COLUMNS - len(row)))
            offsets.append(place.offset)
            which += place.which.tolist()
        self.put(table=np.array(table, np.int64).reshape(-1, COLUMNS), which=np.array(which, np.int64), numbers=np.zeros(at))
        of_motions, of_forces = np.array(list(ends.values()), np.int64).reshape(-1, 2).T.copy()
        self.put(offsets=np.array(offsets).reshape(-1, 12), ends=of_motions, ends_of_forces=of_forces)
        bodies, na = len(robot.tree.parents), robot.na
        self.put(velocities=np.zeros((bodies, 6)), biases=np.zeros((bodies, 6)), gravity=robot.bodies.gravity)
        self.put(last=np.full(na, np.nan), slowest=np.zeros(na), fastest=np.zeros(na), reach=np.zeros(n))
        rows, pushes = self.counts = counts[0], counts[1]
        size, most = na + 3 * n + rows + pushes + len(robot.closures.keys) * 6 + EXTRA, na + 3 * n + EXTRA
        self.put(modes=np.zeros(n, np.int64), pool=Pool(POOL * size * size, POOL * size))
        self.put(active=np.zeros(most, np.int64), missed=np.zeros(most, np.bool_))
        self.put(multipliers=np.zeros((len(ends), most)))
        self.none = np.zeros(0, np.int64), np.zeros((len(ends), 0))
        self.put(rows=rows, pushes=pushes)
        self.by_python, self.size = None in structures, rows * (robot.nv + 3) + pushes * (3 * n + 3) + robot.nv + 3 * n + 2

    def limit(self, robot: Robot, law: Law, limits: TaskLimits) -> None:
        """Set the limits, where they have changed."""
        own, (known, of, before) = robot.limits, self.limited
        if own is known and law is of and limits is before:
            return
        low, high, slow = own.q_min.copy(), own.q_max.copy(), np.zeros(robot.na)
        for name, least, largest in limits.angles:
            if name not in robot.joint_names:
                raise InputError("limits.angles", f"no motor '{name}'{nearest(name, robot.joint_names)}")
            k = robot.joint_names.index(name)
            low[k], high[k], slow[k] = max(low[k], least), min(high[k], largest), TIME_CONSTANT
            if not low[k] < high[k]:
                raise InputError("limits.angles", f"no angle of '{name}' is left: {low[k]:g} to {high[k]:g}")
        self.put(corners=ROUND if law.round_cones else law.directions)
        self.put(angles_min=low, angles_max=high, time_constants=slow)
        self.put(most=own.tau_max * limits.torque if limits.torque != 1.0 else own.tau_max, of_joints=limits.joints)
        self.put(least=limits.normal_force, smaller=limits.pressure_margin, acceleration=limits.acceleration)
        self.put(speed_max=np.minimum(own.v_max, limits.speed), braking=limits.braking, singular=limits.singular)
        self.put(share=np.inf if law.unlimited_friction else 1.0 - limits.friction_margin, mass=robot.total_mass)
        self.put(round_cones=law.round_cones, verifies=law.holds_still and not robot.closures.keys)
        self.limited = own, law, limits


@compiled
def part_of(plan: Plan, at: Equations, k: int) -> Part:
    """Return task k."""
    first, of_force, level = plan.table[k, FIRST], plan.table[k, KIND] >= NORMAL, 0
    A, values, x, ends = (
        (at.F, at.pushes, at.force, plan.ends_of_forces) if of_force else (at.A, at.values, at.motion, plan.ends)
    )
    last = first + plan.table[k, COUNT]
    while level < len(ends) - 1 and ends[level] <= first:
        level += 1
    return Part(A[first:last], values[0, first:last], values[1, first:last], values[2, first:last], x, level, of_force)


class Stacked(NamedTuple):
    """Tasks in order of their levels, with their plan, and arrays of their numbers, see `Read`.

    given: in their order in the stack; keys: of the contacts; which: of the plan
    """

    given: list[MotionTask | ContactTask]
    tasks: list[MotionTask | ContactTask]
    keys: tuple[str, ...]
    plan: Plan
    which: Array
    read: Read


def stacked(robot: Robot, stack: TaskStack, keys: tuple[str, ...]) -> tuple[list[MotionTask | ContactTask], Plan]:
    """Return the tasks in order of their levels, and their plan with their numbers. keys: of contacts. Raises InputError."""
    found, given = robot.scratch.get("stack"), list(stack.tasks)
    # tasks are equal if they are the same object
    if not isinstance(found, Stacked) or found.given != given or found.keys != keys:
        found = _stacked(robot, given, keys)
        if found.read.lasting:
            robot.scratch["stack"] = found
    own = found.plan.own
    own["which"][:] = found.which
    if found.read.arrays:
        np.concatenate(found.read.arrays, out=own["numbers"])
    return found.tasks, found.plan


def _stacked(robot: Robot, given: list[MotionTask | ContactTask], keys: tuple[str, ...]) -> Stacked:
    read, tasks = Read(), sorted(given, key=attrgetter("level"))
    structures = [task.structure(robot) for task in tasks]
    kinds = [(type(task), task.level, of or task.count(robot)) for task, of in zip(tasks, structures, strict=True)]
    plans = robot.scratch.setdefault("plans", {})
    assert isinstance(plans, dict)
    key = len(keys), *kinds
    plan = plans.get(key)
    if plan is None:
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plan = plans[key] = Plan(robot, tasks, structures, key)
    which = plan.own["which"].copy()
    for task, structure, row in zip(tasks, structures, plan.own["table"], strict=True):
        read.lasting = read.lasting and task.fixed()
        read.add(roots_of(task.weight, int(row[COUNT])), type(task.weight) is float)
        if structure is not None:
            task.read(int(row[COUNT]), read)
        if isinstance(task, ContactTask):
            which[row[WHICH] : row[WHICH] + row[JOINT]] = task.rows(keys)
    return Stacked(given, tasks, keys, plan, which, read)


def refuse(tasks: Sequence[MotionTask | ContactTask], plan: Plan, number: int) -> None:
    """Raise InputError for the task of this number, whose numbers a kernel has refused."""
    task, (first, last) = tasks[number], plan.spans[number]
    if isinstance(task, MotionTask):
        gains(task.stiffness, task.damping, task.COMPONENTS or last - first)
    for name, given, size in task.targets(last - first):
        if given is not None:
            checked_target(name, given, size)
    raise AssertionError("compiled code rejected checked targets")


@compiled
def begin(d: Dynamics, plan: Plan, motion: tuple[Array, ...], block: Array, kinds: Array) -> int:
    """Fill the equations of the tasks, the intended contact modes (n) and the limits. Return −1, or the number of a task with
    malformed targets.

    motion: (angles of the actuated joints (na), placements (njoints, 12), origin (3)); block: of `Equations`
    """
    (angles, placements, origin), g = motion, d.given
    fill(block, 0.0)
    out = equations_in(block, plan.rows, plan.pushes, len(g.v), len(kinds))
    out.tick[0] = g.ticks
    for i in range(len(kinds)):
        kinds[i] = plan.modes[i] if plan.modes[i] >= 0 else STICK if g.gaps[i] <= g.touching else OPEN
        plan.reach[i] = np.inf if plan.share == np.inf and g.mu[i] > 0.0 else g.mu[i] * min(plan.share, 1.0)
    _fill_bounds(d, plan, angles)
    body_motions(g.model, g.axes, g.v, Motions(plan.velocities, plan.biases))
    for k in range(len(plan.table)):
        row = plan.table[k]
        kind, first, last = row[KIND], row[FIRST], row[FIRST] + row[COUNT]
        numbers, sound = plan.numbers[row[GAINS] : row[COLUMNS - 1]], finite(plan.numbers[row[GAINS] : row[COLUMNS - 1]])
        roots = plan.numbers[row[ROOTS] : row[GAINS]]
        copy(roots, out.pushes[2, first:last] if kind >= NORMAL else out.values[2, first:last])
        if kind >= NORMAL:  # numbers: the target
            which = plan.which[row[WHICH] : row[WHICH] + row[JOINT]]
            fill_forces_of(g, kind, which, (numbers, origin), (out.F[first:last], out.pushes[0, first:last]))
        elif sound and kind != PYTHON:
            sound = _fill_motion_task(d, plan, k, (angles, placements, origin), out)
        if not sound:
            return k
    return -1


@compiled
def _fill_motion_task(d: Dynamics, plan: Plan, k: int, motion: tuple[Array, ...], out: Equations) -> bool:
    """Fill the equations of a motion task. Return False for negative gains or a target that is no rotation."""
    (angles, placements, origin), g, row, at, sound = motion, d.given, plan.table[k], plan.table[k, GAINS:], True
    kind, first, last = row[KIND], row[FIRST], row[FIRST] + row[COUNT]
    which, gains = plan.which[row[WHICH] : row[WHICH] + row[COUNT]], plan.numbers[at[0] : at[1]]
    rows, asked, drift = out.A[first:last], out.values[0, first:last], out.values[1, first:last]
    one, two = plan.numbers[at[2] : at[3]], plan.numbers[at[4] : at[5]]
    three, four = plan.numbers[at[6] : at[7]], plan.numbers[at[8] : at[9]]
    if kind == JOINTS:
        fill_joints((angles, g.v), (which, g.model.a), (gains, one, two, three), (rows, asked))
    elif kind == CENTRE:
        terms = g.M, g.own_h, g.v, placements[1], plan.gravity, origin
        fill_centre(terms, (gains, which), (one, two, three), (rows, asked, drift))
    else:
        bodies, motions = (g.axes, placements, g.model.support, origin), Motions(plan.velocities, plan.biases)
        task, local = (plan.offsets[k], gains, which), kind == LOCAL
        sound = fill_frame(bodies, motions, task, (one, two, three, four), (rows, asked, drift), row[JOINT], local)
    for i in range(len(gains)):
        sound = sound and gains[i] >= 0.0
    return sound


@compiled
def approach(room: Any, braking: float, time_constant: float, dt: float) -> Any:
    """Return the largest speed towards a bound, at a distance `room` ≥ 0 from it: the root s of s²/2c = room − s T, c the
    deceleration, T four time constants, at least the period dt [s]. A speed that follows it with the time constant comes to
    the bound critically damped."""
    back = braking * max(4.0 * time_constant, dt)
    return np.sqrt(back * back + 2.0 * braking * room) - back


@compiled
def _fill_bounds(d: Dynamics, plan: Plan, q: Array) -> None:
    """Fill the bounds of the joint accelerations [rad/s²]: velocity limits, and position limits that leave the way to stop with
    the deceleration `braking`. They never contradict each other. q: angles of the joints

    The speed follows the least of `approach` and the velocity limit, and 0 beyond a position limit, with the deceleration c at
    most. Speeds that `approach` does not permit may take a joint of `TaskLimits.angles` beyond its limit:
    `EXCESS` · `TIME_CONSTANT` at most, 8 mrad.
    """
    dt, c, most = d.given.dt, plan.braking, plan.acceleration
    for k in range(len(q)):
        plan.slowest[k], plan.fastest[k] = -most, most
        if plan.of_joints:
            v, v_max, slow = d.given.v[d.given.model.a[k]], plan.speed_max[k], plan.time_constants[k]
            # how far the speed is below the largest one, and above the least one
            below = min(v_max, approach(max(plan.angles_max[k] - q[k], 0.0), c, slow, dt)) - v
            above = min(v_max, approach(max(q[k] - plan.angles_min[k], 0.0), c, slow, dt)) + v
            lag = max(slow, dt)
            plan.fastest[k] = min(max(min(below / lag, (below + EXCESS) / dt), -c, -most), most)
            plan.slowest[k] = min(max(min(-min(above / lag, (above + EXCESS) / dt), c), -most), most)
            if v > 0.0:  # in a narrow range braking comes first
                plan.slowest[k] = min(plan.slowest[k], plan.fastest[k])
            else:
                plan.fastest[k] = max(plan.fastest[k], plan.slowest[k])
