"""Bodies of an engine world: common interface of a robot on its ground and of a scene; joint springs and friction; the robot.

Joint springs and friction are evaluated at the end of the step: stable for every stiffness, and friction never drives.
    τ = −(viscous + coulomb / max(|v⁺|, CREEP)) v⁺ − k (x + dt v⁺)
The step is solved again until no joint changes between sticking and sliding. Typical: one solve.

Modelling error: a joint that should stick creeps at CREEP times its load over its friction limit. Of a robot only the contact
points make contact, with the terrain and with boxes of other bodies. Joint limits are not simulated.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, ContactSet, Record, State
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution, Rows
from sim_harness.shapes import Shape
from sim_harness.world.world import (
    MARGIN,
    Push,
    Touching,
    checked_state,
    contact_jacobian,
    generalised_force,
)

CREEP = 1e-4
"""Speed below which Coulomb friction is a damper [rad/s]. Smaller values reduce creep and make D more ill-conditioned."""

ROUNDS = 8  # largest number of solves per step


class JointFriction(Record, frozen=True):
    """Joint friction of all degrees of freedom, 0 without friction."""

    viscous: Array  # [N·m·s/rad] (nv)
    coulomb: Array  # [N·m] (nv)

    @staticmethod
    def of(robot: Robot, viscous: dict[str, float], coulomb: dict[str, float]) -> "JointFriction":
        """Build the joint friction; viscous and coulomb have a value for the name of each actuated joint."""
        columns = np.zeros((2, robot.nv))
        for row, values in zip(columns, (viscous, coulomb), strict=True):
            row[robot.tree.a] = [values[name] for name in robot.joint_names]
        return JointFriction(viscous=columns[0], coulomb=columns[1])


def solve_with_friction(engine: Engine, problem: ForwardProblem, friction: JointFriction) -> ForwardSolution:
    """Return the engine's solution of a step with joint friction.

    A damper b on v⁺ is exact in every engine: M (v⁺ − v) = … − dt b v⁺ becomes (M + dt b)(v⁺ − v) = … − dt b v.
    """
    direction = np.where(np.abs(problem.v) > CREEP, np.sign(problem.v), 0.0) * (friction.coulomb > 0)  # 0: the joint sticks
    for _ in range(ROUNDS):
        damping = friction.viscous + np.where(direction == 0.0, friction.coulomb / CREEP, 0.0)
        damped = msgspec.structs.replace(
            problem,
            M=problem.M + np.diag(problem.dt * damping),
            force=problem.force - damping * problem.v - friction.coulomb * direction,
        )
        solution = engine.solve(damped)
        before, direction = direction, _directions(direction, solution.v_plus, friction.coulomb)
        if (direction == before).all():
            return solution
    return msgspec.structs.replace(solution, status=Status.NOT_CERTIFIED) if solution.status.ok else solution


def _directions(direction: Array, v_plus: Array, coulomb: Array) -> Array:
    """Return the sliding direction of each joint after a solve, 0 for sticking (nv).

    A sliding joint that reversed its direction sticks. A sticking joint that exceeded its friction slides.
    """
    slips = np.where(np.abs(v_plus) > CREEP, np.sign(v_plus), 0.0)
    turned = (direction != 0.0) & (v_plus * direction <= CREEP)
    return np.where(turned, 0.0, np.where(direction == 0.0, slips, direction)) * (coulomb > 0)


class Bodies:
    """Base class with the parts that differ between a robot and a scene. Default methods are those of a robot."""

    robot: Robot  # model of all bodies; it owns work arrays
    terrain: Terrain  # the ground
    start: State  # first state
    dt: float = 1e-3  # default step [s]

    def checked(self, q: Array, v: Array | None) -> State:
        """Return a copy of (q, v), v = 0 without v. Raises InputError for an invalid state."""
        return checked_state(self.robot, q, v)

    def terms(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return copies of M (nv, nv), h (nv) and the joint axes (nv, 6) as in `DynamicsTerms`."""
        terms = self.robot.terms(q, v)
        return terms.M.copy(), terms.h.copy(), terms.axes.copy()

    def touching(self, q: Array) -> Touching:
        """Return the contacts at q."""
        raise NotImplementedError

    def rows(self, q: Array, axes: Array) -> Rows | None:
        """Return the rows of closures and stops at q, None without any."""
        if not self.robot.closures.keys:
            return None
        gaps, G = self.robot.closure_gaps(q)
        return Rows(G=G, g=gaps, stops=np.zeros(len(gaps), dtype=bool))

    def force(self, axes: Array, state: State, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> Array:
        """Return the generalised force of motor torques, pushes and other external forces [N, N·m] (nv).

        span: time and length of the step [s]
        """
        raise NotImplementedError

    def with_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        """Return the forward problem with implicit joint springs, and the joint friction, which it does not contain.

        q: configuration at the beginning of the step (nq)
        integrates: whether the engine is an `Integrator`, which handles springs and dampers itself
        """
        return problem, None

    def moved(self, q: Array, shift: Array) -> Array:
        """Return the configuration after a displacement along the axes at q (nq)."""
        return self.robot.integrate(q, shift)

    def along_axes_at(self, q: Array, moved: Array, J: Array) -> Array:
        """Return J, changed in place so that it multiplies velocities along the axes at q.

        J: Jacobian at the configuration `moved`, for velocities along the axes there (m, nv)
        """
        return J

    def after(self, q: Array, v_plus: Array, drift: Array, dt: float) -> State:
        """Return the state after a step of dt [s] from the configuration q.

        v_plus: velocity after the step, along the axes at q (nv)
        drift: velocity with which the configuration is integrated, along the axes at q (nv)
        """
        return State(q=self.robot.integrate(q, drift * dt), v=v_plus)


class MovedBodies(Record, frozen=True):
    """Implementation of `System`: evaluates bodies at configurations near q."""

    bodies: Bodies
    q: Array  # configuration at the beginning of the step (nq)

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        """Return M (nv, nv) and h (nv) at q ⊕ shift."""
        M, h, _ = self.bodies.terms(self.bodies.robot.integrate(self.q, shift), v)
        return M, h

    def rows(self, shift: Array) -> Rows | None:
        """Return the constraint rows at q ⊕ shift."""
        moved = self.bodies.moved(self.q, shift)
        axes = self.bodies.robot.terms(moved, np.zeros(self.bodies.robot.nv)).axes
        rows = self.bodies.rows(moved, axes)
        if rows is not None:
            self.bodies.along_axes_at(self.q, moved, rows.G)
        return rows


def forward_problem(
    robot: Robot, terms: tuple[Array, Array, Array], v: Array, contacts: ContactSet, force: Array, dt: float, **more: Any
) -> ForwardProblem:
    """Return the forward problem of a step.

    terms: M, h and the axes at the beginning of the step
    v: velocity at the beginning of the step (nv)
    force: generalised force of motors and pushes [N, N·m] (nv)
    more: further fields of `ForwardProblem`
    """
    M, h, axes = terms
    J = contact_jacobian(axes, robot.tree.support, contacts)
    return ForwardProblem(M=M, h=h, v=v, J=J, force=force, mu=contacts.mu, gaps=contacts.gaps, dt=dt, **more)


class RobotBodies(Bodies):
    """A robot on its ground.

    mu: friction coefficients, one per contact point, then one per pair; None: those of terrain and robot
    friction: joint friction, None without any
    hulls: shapes that touch the ground instead of the contact points that are no feet; only MuJoCo worlds have them
    """

    def __init__(
        self,
        robot: Robot,
        terrain: Terrain,
        q: Array,
        mu: Array | None = None,
        friction: JointFriction | None = None,
        hulls: Sequence[Shape] = (),
    ) -> None:
        self.hulls = hulls
        self.robot, self.terrain, self.mu, self.friction = robot, terrain, mu, friction
        self.start = checked_state(robot, q, None)

    def touching(self, q: Array) -> Touching:
        return Touching(contacts=self.near(q, MARGIN))

    def near(self, q: Array, margin: float) -> ContactSet:
        """Return the contacts with a gap below the margin [m]."""
        return contacts_from_geometry(self.robot, q, self.terrain, margin=margin, mu=self.mu)

    def force(self, axes: Array, state: State, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> Array:
        robot, force = self.robot, np.zeros(self.robot.nv)
        if tau is not None:
            force[robot.tree.a] = tau
        for push in pushes:
            share = push.share(*span)
            if share > 0.0:
                joint = robot.joint_of_frame(push.frame)
                rotations, origins = robot.place(state.q)
                point = origins[joint] + rotations[joint] @ np.array(push.point)
                force += generalised_force(axes, robot.tree.support, joint, point, share * np.array(push.force))
        return force

    def with_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        return problem, self.friction
