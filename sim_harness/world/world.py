"""Interface of a simulated world and result of a step. `sim_harness.world.worlds` lists the worlds.

Its kernels for Jacobians and forces are not those of `idyn`: an error in one of them shows as a disagreement.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.errors import InputError
from idyn.library.kernels import entry
from idyn.library.records import Flags, Indices, Mask, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.terms.inputs import check_turns
from idyn.types import Array, ContactSet, Record, State
from sim_harness.engines.engine import ForceTimes, ForwardProblem, ForwardSolution


def contact_jacobian(axes: Array, support: Array, contacts: ContactSet) -> Array:
    """Return J (3n, nv), rows S, T, N of each contact: J v is the velocity of body 1 relative to body 2 along s, t, n.

    axes: unit spatial velocities of the degrees of freedom (`DynamicsTerms.axes`)
    support: which degrees of freedom move each joint (`Robot.tree.support`)
    """
    c = contacts
    return relative_jacobian(axes, support, c.bodies, c.others, c.points, c.tangents, c.normals)


@entry(Matrix, Mask, Indices, Indices, Matrix, Matrix, Matrix)
def relative_jacobian(
    axes: Array, support: Array, bodies: Array, others: Array, points: Array, tangents: Array, normals: Array
) -> Array:
    """Return the Jacobian (3n, nv) of `contact_jacobian`, for contacts given by arrays.

    bodies, others: joint indices of first and second bodies, 0: environment (n)
    points: contact points [m] (n, 3)
    tangents, normals: s and n of each contact (n, 3)
    """
    n, nv = len(bodies), axes.shape[0]
    J = np.zeros((3 * n, nv))
    for i in range(n):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        for d in range(nv):
            if support[bodies[i], d] == support[others[i], d]:
                continue  # moves both bodies or neither
            sign = 1.0 if support[bodies[i], d] else -1.0
            # velocity of the point: linear + angular × point
            vx = sign * (axes[d, 0] + axes[d, 4] * z - axes[d, 5] * y)
            vy = sign * (axes[d, 1] + axes[d, 5] * x - axes[d, 3] * z)
            vz = sign * (axes[d, 2] + axes[d, 3] * y - axes[d, 4] * x)
            J[3 * i, d] = s0 * vx + s1 * vy + s2 * vz
            J[3 * i + 1, d] = t0 * vx + t1 * vy + t2 * vz
            J[3 * i + 2, d] = n0 * vx + n1 * vy + n2 * vz
    return J


@entry(Matrix, Mask, int, Vector, Vector)
def generalised_force(axes: Array, support: Array, joint: int, point: Array, force: Array) -> Array:
    """Return the generalised force (nv) of a force [N] (3) at a point [m] (3) of the body of `joint`, both in world frame."""
    nv = axes.shape[0]
    f = np.zeros(nv)
    mx = point[1] * force[2] - point[2] * force[1]
    my = point[2] * force[0] - point[0] * force[2]
    mz = point[0] * force[1] - point[1] * force[0]
    for d in range(nv):
        if support[joint, d]:
            linear = axes[d, 0] * force[0] + axes[d, 1] * force[1] + axes[d, 2] * force[2]
            f[d] = linear + axes[d, 3] * mx + axes[d, 4] * my + axes[d, 5] * mz
    return f


@entry(Matrix, Matrix, Matrix, written(Matrix))
def world_impulses(p: Array, tangents: Array, normals: Array, out: Array) -> None:
    """Transform impulses (n, 3) from contact coordinates (s, t, n) to the world frame; out: output (n, 3)."""
    for i in range(len(p)):
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        out[i, 0] = p[i, 0] * s0 + p[i, 1] * t0 + p[i, 2] * n0
        out[i, 1] = p[i, 0] * s1 + p[i, 1] * t1 + p[i, 2] * n1
        out[i, 2] = p[i, 0] * s2 + p[i, 1] * t2 + p[i, 2] * n2


@entry(Matrix, Matrix, Matrix, written(Matrix))
def along_contacts(vectors: Array, tangents: Array, normals: Array, out: Array) -> None:
    """Transform world vectors (n, 3) to contact coordinates, in the order normal, s, t; out: output (n, 3)."""
    for i in range(len(vectors)):
        x, y, z = vectors[i, 0], vectors[i, 1], vectors[i, 2]
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        out[i, 0] = n0 * x + n1 * y + n2 * z
        out[i, 1] = s0 * x + s1 * y + s2 * z
        out[i, 2] = (n1 * s2 - n2 * s1) * x + (n2 * s0 - n0 * s2) * y + (n0 * s1 - n1 * s0) * z


@entry(Matrix, Vector)
def nearest(points: Array, to: Array) -> int:
    """Return the index of the point (n, 3) nearest to another one (3), 0 if its position is not finite."""
    found, least = 0, np.inf
    for k in range(len(points)):
        x, y, z = points[k, 0] - to[0], points[k, 1] - to[1], points[k, 2] - to[2]
        distance = np.sqrt(x * x + y * y + z * z)
        if distance < least:
            found, least = k, distance
    return found


@entry(Vector, Matrix, float, written(Flags))
def mark_felt(gaps: Array, impulses: Array, margin: float, felt: Array) -> None:
    """Mark contacts within a margin [m] and those with an impulse. gaps [m] (n); impulses (n, 3); felt: output (n)"""
    for i in range(len(gaps)):
        felt[i] = gaps[i] <= margin or impulses[i, 0] != 0.0 or impulses[i, 1] != 0.0 or impulses[i, 2] != 0.0


@entry((Vector, Vector), (Vector, Vector, Vector))
def largest_difference(inertial: tuple[Array, Array], forces: tuple[Array, Array, Array]) -> float:
    """Return ‖a + b − (x + y + z)‖∞, NaN with a NaN. inertial: a, b; forces: x, y, z; each (n)"""
    (a, b), (x, y, z), largest = inertial, forces, 0.0
    for i in range(len(a)):
        difference = abs(a[i] + b[i] - (x[i] + y[i] + z[i]))
        if difference > largest or np.isnan(difference):
            largest = difference
    return largest


MARGIN = 0.01  # contacts with a gap below this are reported and simulated [m]: the distance that a foot of 10 m/s moves in 1 ms


class Push(Record, frozen=True):
    """An external force, constant over an interval."""

    frame: str  # any frame of the pushed body
    force: tuple[float, float, float]  # in the world frame [N] (3)
    # point of action, in the frame of the joint that carries the body (floating base: base frame) [m] (3)
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    start: float = 0.0  # beginning [s]
    duration: float = np.inf  # [s]; a step covered in part gets a proportional force, so the total impulse is force · duration

    def share(self, t: float, dt: float) -> float:
        """Return the fraction of the step [t, t + dt] in which the push acts, 0 to 1."""
        return max(min(t + dt, self.start + self.duration) - max(t, self.start), 0.0) / dt


class Touching(Record, frozen=True):
    """The contacts of a configuration (n)."""

    contacts: ContactSet  # joints, points, axes, gaps and friction
    pairs: Array | None = None  # in scenes, indices of the two bodies, the second is `GROUND` for the ground (n, 2)
    stiffness: Array | None = None  # in scenes, inf when both surfaces are rigid [N/m] (n)
    dissipation: Array | None = None  # in scenes, 0 when both surfaces are rigid [s] (n)


class StepResult(Record, frozen=True):
    """Contacts and forces of one step."""

    contacts: ContactSet  # contacts at the beginning of the step
    impulse: Array  # on the robot, world frame [N·s] (n, 3)
    force: Array  # on the robot along n, s and t = n × s of each contact, mean over the step [N] (n, 3)
    status: Status  # status of the engine
    iterations: int  # iterations of the engine
    dynamics: float  # residual of the equation of motion, ‖·‖∞ [N·s, N·m·s]
    beside: Array | float  # part of the normal forces that acts beside the contact places, on other shapes of the robot [N] (n)

    @property
    def normal_force(self) -> Array:
        """Return the normal force of each contact [N] (n)."""
        return self.force[:, 0]


class Step(StepResult, frozen=True):
    """A step with the engine's problem and solution."""

    touching: Touching  # contacts with their materials
    problem: ForwardProblem  # problem of the engine, before joint springs and friction are added
    solution: ForwardSolution  # solution of the engine
    force_times: ForceTimes  # times at which the world evaluates forces
    seconds: float  # computation time of the engine [s]


def step_of(
    problem: ForwardProblem, solution: ForwardSolution, touching: Touching, force_times: ForceTimes, seconds: float
) -> Step:
    """Return the result of a step from the engine's problem and solution."""
    c, p, (force, impulse) = touching.contacts, np.ascontiguousarray(solution.p), np.empty((2, *solution.p.shape))
    world_impulses(p, c.tangents, c.normals, impulse)
    force[:, 0], force[:, 1:] = p[:, 2], p[:, :2]
    force /= problem.dt
    return Step(
        contacts=c,
        impulse=impulse,
        force=force,
        status=solution.status,
        iterations=solution.iterations,
        dynamics=solution.dynamics,
        beside=0.0,
        touching=touching,
        problem=problem,
        solution=solution,
        force_times=force_times,
        seconds=seconds,
    )


class World(Protocol):
    """A simulated world with state (q, v), time t [s] and contacts of that state, which callers must not modify."""

    robot: Robot  # the world's own instance; not shared, because it holds work arrays
    terrain: Terrain  # the ground
    state: State  # configuration and velocity
    q: Array  # as in `State` (nq)
    v: Array  # as in `State` (nv)
    t: float  # time since the last reset [s]

    @property
    def contacts(self) -> ContactSet:
        """Return the contacts from the geometry of robot and terrain, independent of the world's contact model."""
        ...

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Set the state to (q, v), v = 0 without v, and the time to 0. Raises InputError for an invalid state."""
        ...

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> StepResult:
        """Simulate one step.

        tau: joint torques [N·m] (na); None: 0
        dt: length of the step [s]; None: the default of the robot or scene
        pushes: external forces; those that act during the step are applied
        """
        ...


def checked_state(robot: Robot, q: Array, v: Array | None) -> State:
    """Return a copy of (q, v), v = 0 without v. Raises InputError for wrong shapes, non-finite values or quaternions that are
    not normalised."""
    v = np.zeros(robot.nv) if v is None else v
    for name, value, size in (("q", q, robot.nq), ("v", v, robot.nv)):
        if value.shape != (size,) or not np.isfinite(value).all():
            got = f"shape {value.shape}" if value.shape != (size,) else "NaN or infinite values"
            raise InputError(name, f"expected {size} finite numbers, got {got}")
    state = State(q=np.array(q, dtype=np.float64), v=np.array(v, dtype=np.float64))
    check_turns(robot, state.q)
    return state
