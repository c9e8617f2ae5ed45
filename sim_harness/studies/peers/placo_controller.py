"""placo on the tasks of the comparison: contacts and dynamics as constraints, all else by weights."""

from typing import Any

import numpy as np
import placo
from numpy.typing import NDArray

Array = NDArray[np.float64]
Answer = tuple[Array, Array, bool]

TRUNK, FRAME, POSTURE, FORCE = 1.0, 1.0, 1e-6, 1e-6
"""Weights: trunk, other frames, posture, small contact forces."""


class Controller:
    """See `serve.Setup` and `serve.Tick`."""

    def __init__(self, setup: Any) -> None:
        self._setup = setup
        self._robot = robot = placo.RobotWrapper(setup.urdf, placo.Flags.ignore_collisions)
        names = [name for name in robot.joint_names() if name in setup.joints]
        if names != setup.joints:
            raise SystemExit(f"expected joints in the order {setup.joints}, got {names}")
        self._solver = solver = placo.DynamicsSolver(robot)
        solver.dt = setup.dt
        for name, armature, effort in zip(setup.joints, setup.armature, setup.effort, strict=True):
            robot.set_rotor_inertia(name, armature)
            robot.set_gear_ratio(name, 1.0)
            solver.set_torque_limit(name, effort)
        solver.enable_torque_limits(True)
        solver.set_kp(setup.stiffness)
        solver.set_kd(setup.damping)
        self._set_state(np.array(setup.q), np.zeros(len(setup.joints) + 6))
        self._contacts: list[Any] = [self._contact(link) for link in setup.contacts]
        self._trunk = self._position("trunk", setup.base, "soft", TRUNK)
        self._attitude = solver.add_orientation_task(setup.base, np.eye(3))
        self._attitude.configure("attitude", "soft", TRUNK)
        self._frames: list[Any] = [None] * len(setup.frames)
        posture = solver.add_joints_task()
        posture.set_joints(dict(zip(setup.joints, setup.angles, strict=True)))
        posture.configure("posture", "soft", POSTURE)
        self._tau = np.zeros(len(setup.joints))

    def _set_state(self, q: Array, v: Array) -> None:
        self._robot.state.q, self._robot.state.qd = q, v
        self._robot.update_kinematics()

    def _position(self, name: str, link: str, priority: str, weight: float) -> Any:
        task = self._solver.add_position_task(link, self._robot.get_T_world_frame(link)[:3, 3])
        task.configure(name, priority, weight)
        return task

    def _contact(self, link: str) -> Any:
        task = self._position(link, link, "hard", 1.0)
        task.kp = 0.0
        contact = self._solver.add_unilateral_point_contact(task)
        contact.mu, contact.weight_forces = (1.0 - self._setup.margin) * self._setup.mu, FORCE
        return contact

    def prepare(self, tick: Any) -> None:
        """Set contacts and references."""
        setup = self._setup
        self._set_state(tick.q, tick.v)
        for i, contact in enumerate(self._contacts):
            if contact is not None and not tick.stands[i]:
                task, self._contacts[i] = contact.position_task(), None
                self._solver.remove_contact(contact)
                self._solver.remove_task(task)
            elif contact is None and tick.stands[i]:
                self._contacts[i] = self._contact(setup.contacts[i])
        _follow(self._trunk, tick.trunk)
        for i, (link, target) in enumerate(zip(setup.frames, tick.frames, strict=True)):
            asked, task = not np.isnan(target[0]), self._frames[i]
            if asked and task is None:
                self._frames[i] = self._position(f"frame {link}", link, "soft", FRAME)
            elif task is not None and not asked:
                self._solver.remove_task(task)
                self._frames[i] = None
            if asked:
                _follow(self._frames[i], target)

    def tick(self, tick: Any) -> Answer:
        """Return torques, normal forces, and whether there is a solution."""
        self._set_state(tick.q, tick.v)
        found = self._solver.solve(False)
        if not found.success:  # the last torques are kept
            return self._tau, np.full(len(self._contacts), np.nan), False
        self._tau = np.array(found.tau[6:])
        normal = [0.0 if contact is None else contact.wrench[2] for contact in self._contacts]
        return self._tau, np.array(normal), True


def _follow(task: Any, target: Array) -> None:
    """Let a position task follow a row of a curve (9)."""
    task.target_world, task.dtarget_world, task.ddtarget_world = target[:3], target[3:6], target[6:]
