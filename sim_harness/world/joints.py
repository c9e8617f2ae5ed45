"""Springs and friction in joints, evaluated at the end of the step: stable for every stiffness, and friction never drives.

    τ = −(viscous + coulomb / max(|v⁺|, CREEP)) v⁺ − k (x + dt v⁺)
A joint with Coulomb friction either sticks, modelled as a stiff damper that lets it creep, or slides with full friction. The
step is solved again until no joint changes its mode. Typical: one solve, two when a joint stops or starts.

Modelling error: a joint that should stick creeps at CREEP times its load over its friction limit. Static and sliding friction
are equal.
"""

import msgspec
import numpy as np

from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution

CREEP = 1e-4
"""Speed below which Coulomb friction is a damper [rad/s]. Smaller values reduce creep and make D more ill-conditioned."""

ROUNDS = 8
"""Largest number of solves per step."""


class JointFriction(Record, frozen=True):
    """Joint friction of all degrees of freedom, 0 without friction.

    viscous: [N·m·s/rad] (nv)
    coulomb: [N·m] (nv)
    """

    viscous: Array
    coulomb: Array

    @staticmethod
    def of(robot: Robot, viscous: dict[str, float], coulomb: dict[str, float]) -> "JointFriction":
        """Build the joint friction; viscous and coulomb have a value for the name of each actuated joint."""
        columns = np.zeros((2, robot.nv))
        for row, values in zip(columns, (viscous, coulomb), strict=True):
            row[robot.tree.a] = [values[name] for name in robot.joint_names]
        return JointFriction(viscous=columns[0], coulomb=columns[1])


def with_springs(problem: ForwardProblem, stiffness: Array, stretch: Array) -> ForwardProblem:
    """Return the forward problem with implicit springs −k (x + dt v⁺).

    This is exact in every engine, because M v⁺ + dt² k v⁺ = (M + dt² k) v⁺.

    stiffness: k of all degrees of freedom [N/m, N·m/rad] (nv)
    stretch: x at the beginning of the step [m, rad] (nv)
    """
    dt = problem.dt
    return msgspec.structs.replace(
        problem,
        M=problem.M + np.diag(dt * dt * stiffness),
        force=problem.force - stiffness * (stretch + dt * problem.v),
    )


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
