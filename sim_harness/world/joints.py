"""Springs and friction in joints, taken at the end of the step: no stiffness makes it unstable, friction never drives.

    τ = −(viscous + coulomb / max(|v⁺|, CREEP)) v⁺ − k (x + dt v⁺)
A joint with Coulomb friction either sticks, a stiff damper that lets it creep, or slides against the whole of its friction;
which, is found by solving the step again until it agrees. Usual: one solve, two in the tick in which a joint stops or starts.

Modelling error: a joint that ought to stick creeps at CREEP times the share of its friction in use. Friction at break-away is
that of sliding.
"""

import msgspec
import numpy as np

from idyn.model.robot import Robot
from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution

CREEP = 1e-4
"""Speed below which Coulomb friction is a damper [rad/s]. Less sticks better and brings D nearer to singular."""

ROUNDS = 8
"""Solutions of one step at the most."""


class JointFriction(Record, frozen=True):
    """Of all degrees of freedom (nv): viscous [N·m·s/rad], coulomb [N·m]; 0 where there is none."""

    viscous: Array
    coulomb: Array

    @staticmethod
    def of(robot: Robot, viscous: dict[str, float], coulomb: dict[str, float]) -> "JointFriction":
        """From values by actuated joint."""
        columns = np.zeros((2, robot.nv))
        for row, values in zip(columns, (viscous, coulomb), strict=True):
            row[robot.tree.a] = [values[name] for name in robot.joint_names]
        return JointFriction(viscous=columns[0], coulomb=columns[1])


def with_springs(problem: ForwardProblem, stiffness: Array, stretch: Array) -> ForwardProblem:
    """The step with springs −k (x + dt v⁺) in it: exact in any engine, as M v⁺ + dt² k v⁺ is (M + dt² k) v⁺.

    stiffness k [N/m, N·m/rad] and stretch x at the beginning of the step [m, rad] of all degrees of freedom (nv)
    """
    dt = problem.dt
    return msgspec.structs.replace(
        problem,
        M=problem.M + np.diag(dt * dt * stiffness),
        force=problem.force - stiffness * (stretch + dt * problem.v),
    )


def solve_with_friction(engine: Engine, problem: ForwardProblem, friction: JointFriction) -> ForwardSolution:
    """The engine's step with the joints' friction in it.

    A damper b on v⁺ is exact in any engine: M (v⁺ − v) = … − dt b v⁺ is (M + dt b)(v⁺ − v) = … − dt b v.
    """
    direction = np.where(np.abs(problem.v) > CREEP, np.sign(problem.v), 0.0) * (friction.coulomb > 0)  # 0: sticks
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
    """Which way each joint slides after all, 0 where it sticks: a sliding one must not have turned round, a sticking one not
    exceed its friction."""
    slips = np.where(np.abs(v_plus) > CREEP, np.sign(v_plus), 0.0)
    turned = (direction != 0.0) & (v_plus * direction <= CREEP)
    return np.where(turned, 0.0, np.where(direction == 0.0, slips, direction)) * (coulomb > 0)
