"""Crocoddyl plans a jump in place of Go2: `python plan_jump.py jump.npz`, in an environment of its own with
`pip install crocoddyl pin==4.0.0`.

The file has one row for each command of `follow_plan.py`: base, joints, and whether the feet stand.
"""

import sys
from typing import Any

import crocoddyl  # type: ignore[import-not-found,import-untyped,unused-ignore]
import example_robot_data  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np
import pinocchio as pin  # type: ignore[import-untyped,unused-ignore]

KNOT, PERIOD = 0.01, 0.02
"""Interval of the optimisation, and of the commands [s]."""

CROUCH, PUSH, FLIGHT, LANDING = 40, 20, 24, 60
"""Lengths of the phases [knots]."""

LOW, HIGH = -0.08, 0.03
"""Height of the base before the push, and at its end and the landing, above that of the stance [m]."""

CLEARANCE = 0.06
"""Height of the feet in the middle of the flight [m]."""

FRICTION, LEAST_FORCE = 0.5, 5.0
"""Friction coefficient of the plan, and least normal force of a standing foot [N]."""

TORQUE = 0.7
"""Share of the torque limits that the plan may use."""

LEGS = ("FL", "FR", "RL", "RR")
JOINTS = tuple(f"{leg}_{joint}_joint" for leg in LEGS for joint in ("hip", "thigh", "calf"))
ANGLES = {"hip": 0.068, "thigh": 0.785, "calf": -1.44}
ARMATURE = {"hip": 0.0045, "thigh": 0.0045, "calf": 0.0165}


class Jump:
    """The optimal control problem. state0: the standing robot: q, v (nq + nv)"""

    def __init__(self) -> None:
        self.model = model = example_robot_data.load("go2").model
        q = pin.neutral(model)
        for name in JOINTS:
            leg, kind, _ = name.split("_")
            joint = model.joints[model.getJointId(name)]
            q[joint.idx_q] = ANGLES[kind] * (-1.0 if leg.endswith("R") and kind == "hip" else 1.0)
            model.armature[joint.idx_v] = ARMATURE[kind]
        self.feet = [model.getFrameId(f"{leg}_foot") for leg in LEGS]
        data = model.createData()
        pin.framesForwardKinematics(model, data, q)
        q[2] -= min(data.oMf[foot].translation[2] for foot in self.feet)  # the centres of the feet are the contact points
        pin.framesForwardKinematics(model, data, q)
        self.places = [data.oMf[foot].translation.copy() for foot in self.feet]
        self.state0 = np.concatenate([q, np.zeros(model.nv)])
        self.state = crocoddyl.StateMultibody(model)
        self.actuation = crocoddyl.ActuationModelFloatingBase(self.state)

    def knot(
        self, stands: bool, lifted: float | None = None, height: float | None = None, arrives: bool = False, ends: bool = False
    ) -> Any:
        """Return the action model of a knot.

        stands: whether the feet are on the ground
        lifted: height of the feet that is asked for [m]; height: of the base, relative to the stance [m]
        arrives: whether the feet shall reach their places on the ground, at rest; ends: whether the robot shall stand still
        """
        state, nu = self.state, self.actuation.nu
        contacts, costs = crocoddyl.ContactModelMultiple(state, nu), crocoddyl.CostModelSum(state, nu)
        for foot, place in zip(self.feet, self.places, strict=True):
            name = self.model.frames[foot].name
            if stands:
                on_ground = crocoddyl.ContactModel3D(state, foot, place, pin.LOCAL_WORLD_ALIGNED, nu, np.array([0.0, 50.0]))
                contacts.addContact(name, on_ground)
                cone = crocoddyl.FrictionCone(np.eye(3), FRICTION, 4, True, LEAST_FORCE, np.inf)
                inside = crocoddyl.ActivationModelQuadraticBarrier(crocoddyl.ActivationBounds(cone.lb, cone.ub))
                friction = crocoddyl.ResidualModelContactFrictionCone(state, foot, cone, nu)
                costs.addCost(f"{name} friction", crocoddyl.CostModelResidual(state, inside, friction), 1e1)
            if lifted is not None or arrives:
                above = place + np.array([0.0, 0.0, lifted or 0.0])
                reach = crocoddyl.ResidualModelFrameTranslation(state, foot, above, nu)
                costs.addCost(f"{name} place", crocoddyl.CostModelResidual(state, reach), 1e6 if arrives else 1e4)
            if arrives:
                still = crocoddyl.ResidualModelFrameVelocity(state, foot, pin.Motion.Zero(), pin.LOCAL_WORLD_ALIGNED, nu)
                linear = crocoddyl.ActivationModelWeightedQuad(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
                costs.addCost(f"{name} velocity", crocoddyl.CostModelResidual(state, linear, still), 1e4)
        if height is not None:
            place = self.state0[:3] + np.array([0.0, 0.0, height])
            base = crocoddyl.ResidualModelFrameTranslation(state, self.model.getFrameId("root_joint"), place, nu)
            costs.addCost("height", crocoddyl.CostModelResidual(state, base), 1e5)
        posture = np.array([5.0] * 2 + [0.0] + [50.0] * 3 + [0.01] * nu + [0.1] * 3 + [1.0] * 3 + [0.01] * nu)
        if ends:
            posture = np.array([1.0] * (6 + nu) + [100.0] * (6 + nu))
        near = crocoddyl.CostModelResidual(
            state, crocoddyl.ActivationModelWeightedQuad(posture), crocoddyl.ResidualModelState(state, self.state0, nu)
        )
        costs.addCost("posture", near, 1e4 if ends else 1e1)
        if not ends:
            effort = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, nu))
            costs.addCost("effort", effort, 1e-3)
            smooth = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelJointAcceleration(state, nu))
            costs.addCost("smooth", smooth, 5e-4)
        motion = crocoddyl.DifferentialActionModelContactFwdDynamics(state, self.actuation, contacts, costs, 0.0, True)
        knot = crocoddyl.IntegratedActionModelEuler(motion, 0.0 if ends else KNOT)
        knot.u_lb, knot.u_ub = -TORQUE * self.model.effortLimit[6:], TORQUE * self.model.effortLimit[6:]
        return knot

    def solve(self) -> tuple[Any, bool]:
        """Return the solver with the plan, and whether it converged."""
        half = FLIGHT // 2
        flight = [self.knot(False, CLEARANCE if k == half else None) for k in range(1, FLIGHT)]
        knots = [
            *[self.knot(True) for _ in range(CROUCH)],
            self.knot(True, height=LOW),
            *[self.knot(True) for _ in range(PUSH - 1)],
            self.knot(False, height=HIGH),
            *flight,
            self.knot(True, height=HIGH, arrives=True),
            *[self.knot(True) for _ in range(LANDING - 1)],
        ]
        problem = crocoddyl.ShootingProblem(self.state0, knots, self.knot(True, ends=True))
        solver = crocoddyl.SolverBoxFDDP(problem)
        solver.th_stop = 1e-4
        solver.setCallbacks([crocoddyl.CallbackVerbose()])
        u = knots[0].quasiStatic(knots[0].createData(), self.state0)
        converged = solver.solve([self.state0] * (len(knots) + 1), [u] * len(knots), 300, False)
        return solver, converged


def rows(jump: Jump, solver: Any) -> dict[str, np.ndarray]:
    """Return base and joints at the times of the commands, velocities and accelerations of the base along world axes."""
    nq, step = jump.model.nq, round(PERIOD / KNOT)
    found: dict[str, list[Any]] = {name: [] for name in ("position", "rotation", "velocity", "acceleration")}
    found |= {name: [] for name in ("angles", "angle_velocity", "angle_acceleration", "stands")}
    last = CROUCH + PUSH + FLIGHT + LANDING
    for k in range(0, last + 1, step):
        q, v = solver.xs[k][:nq], solver.xs[k][nq:]
        a = (solver.xs[min(k + step, last)][nq:] - v) / PERIOD  # targets extrapolated over a period meet the next row
        R = pin.Quaternion(q[3:7]).toRotationMatrix()
        found["position"].append(q[:3])
        found["rotation"].append(R)
        found["velocity"].append(np.concatenate([R @ v[:3], R @ v[3:6]]))
        found["acceleration"].append(np.concatenate([R @ (a[:3] + np.cross(v[3:6], v[:3])), R @ a[3:6]]))
        found["angles"].append(q[7:])
        found["angle_velocity"].append(v[6:])
        found["angle_acceleration"].append(a[6:])
        found["stands"].append(not 0 <= k - CROUCH - PUSH < FLIGHT)
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    jump = Jump()
    solver, converged = jump.solve()
    plan = rows(jump, solver)
    names = [jump.model.names[i] for i in range(2, jump.model.njoints)]
    feet = [f"{leg}_foot" for leg in LEGS]
    np.savez_compressed(sys.argv[1], joints=names, feet=feet, period=PERIOD, **plan)  # type: ignore[arg-type]
    height = 100 * (plan["position"][:, 2] - plan["position"][0, 2])
    print(f"converged: {converged}; base {height.max():.1f} cm up, {-height.min():.1f} cm down")


if __name__ == "__main__":
    main()
