"""TSID on the tasks of the comparison: contacts, dynamics and torque limits as constraints, all else by weights."""

from typing import Any

import numpy as np
import pinocchio as pin
import tsid.tsid_pywrap as tsid  # the package of some releases does not import its module
from numpy.typing import NDArray

Array = NDArray[np.float64]
Answer = tuple[Array, Array, bool]

TRUNK, FRAME, POSTURE, FORCE, PRESSING, JOINTS = 1.0, 1.0, 1e-6, 1e-6, 1e-2, 1.0
"""Weights: trunk, other frames, posture, small contact forces, the force that is asked for, joint accelerations."""

MOST = 1e3
"""Largest normal force of a contact [N]."""


class Controller:
    """See `serve.Setup` and `serve.Tick`."""

    def __init__(self, setup: Any) -> None:
        self._setup = setup
        model = pin.buildModelFromUrdf(setup.urdf, pin.JointModelFreeFlyer())
        order = [model.joints[model.getJointId(name)].idx_v - 6 for name in setup.joints]
        if order != sorted(order):
            raise SystemExit(f"expected joints in the order {setup.joints}, got {list(model.names)}")
        model.armature[6:] = setup.armature
        self._robot = robot = tsid.RobotWrapper(model, tsid.FLOATING_BASE_SYSTEM, False)
        self._formulation = tsid.InverseDynamicsFormulationAccForce("tasks", robot, False)
        q, v = np.array(setup.q), np.zeros(robot.nv)
        self._formulation.computeProblemData(0.0, q, v)
        corners = {i for sole in setup.soles for i in sole}
        self._holds = [([i], self._contact(name)) for i, name in enumerate(setup.contacts) if i not in corners]
        self._holds += [(sole, self._sole(sole)) for sole in setup.soles]
        self._present = [False] * len(self._holds)
        self._trunk = self._frame("trunk", setup.base, np.ones(6))
        if not setup.accelerates:
            self._formulation.addMotionTask(self._trunk, TRUNK, 1, 0.0)
        self._frames = [self._frame(f"frame {link}", link, np.repeat([1.0, 0.0], 3)) for link in setup.frames]
        self._asked = [False] * len(self._frames)
        self._add_posture(np.array(setup.angles))
        limits = tsid.TaskActuationBounds("torque limits", robot)
        limits.setBounds(-np.array(setup.effort), np.array(setup.effort))
        self._formulation.addActuationTask(limits, 1.0, 0, 0.0)
        self._limits = limits  # the formulation does not keep its tasks alive
        self._solver, self._tau = tsid.SolverHQuadProgFast("solver"), np.zeros(len(setup.joints))
        self._sizes: tuple[int, ...] = ()
        self._t, self._pressing = 0.0, False

    def _contact(self, link: str) -> Any:
        setup, robot = self._setup, self._robot
        mu = (1.0 - setup.margin) * setup.mu
        contact = tsid.ContactPoint(link, robot, link, np.array(setup.normal), mu, setup.least, MOST)
        contact.setKp(np.zeros(3))
        contact.setKd(np.full(3, setup.damping))
        contact.useLocalFrame(False)
        return contact

    def _sole(self, corners: list[int]) -> Any:
        """Return the contact of a sole: its frame is that of the first corner."""
        setup, robot = self._setup, self._robot
        frame, *_ = places = [robot.framePosition(self._formulation.data(), self._id(i)) for i in corners]
        points = np.array([frame.actInv(place.translation) for place in places]).T
        mu, normal = (1.0 - setup.margin) * setup.mu, frame.rotation.T @ np.array(setup.normal)
        contact = tsid.Contact6d(f"sole {corners[0]}", robot, setup.contacts[corners[0]], points, normal, mu, setup.least, MOST)
        contact.setKp(np.zeros(6))
        contact.setKd(np.full(6, setup.damping))
        return contact

    def _id(self, contact: int) -> int:
        frame: int = self._robot.model().getFrameId(self._setup.contacts[contact])
        return frame

    def _frame(self, name: str, link: str, mask: Array) -> Any:
        task = tsid.TaskSE3Equality(name, self._robot, link)
        task.setKp(np.full(6, self._setup.stiffness))
        task.setKd(np.full(6, self._setup.damping))
        task.setMask(mask)
        task.useLocalFrame(False)
        return task

    def _add_posture(self, angles: Array) -> None:
        self._posture, accelerates = tsid.TaskJointPosture("posture", self._robot), self._setup.accelerates
        self._posture.setKp(np.full(len(angles), 0.0 if accelerates else self._setup.stiffness))
        self._posture.setKd(np.full(len(angles), 0.0 if accelerates else self._setup.damping))
        self._formulation.addMotionTask(self._posture, JOINTS if accelerates else POSTURE, 1, 0.0)
        self._posture.setReference(tsid.TrajectoryEuclidianConstant("angles", angles).computeNext())

    def prepare(self, tick: Any) -> None:
        """Set contacts and references."""
        self._change(tick)
        if self._setup.accelerates:
            self._posture.setReference(_accelerating(tick.demand))
        else:
            self._trunk.setReference(_sample(tick.trunk))
        for i, task in enumerate(self._frames):
            if self._asked[i]:
                task.setReference(_sample(tick.frames[i]))
        if not np.isnan(tick.presses):
            self._press(tick.presses)

    def tick(self, tick: Any) -> Answer:
        """Return torques, normal forces, and whether there is a solution."""
        data = self._formulation.computeProblemData(self._t, tick.q, tick.v)
        sizes = self._formulation.nVar, self._formulation.nEq, self._formulation.nIn
        if sizes != self._sizes:
            self._solver.resize(*sizes)
            self._sizes = sizes
        found = self._solver.solve(data)
        self._t += self._setup.dt
        if found.status != 0:  # the last torques are kept
            return self._tau, np.full(len(tick.stands), np.nan), False
        self._tau = np.array(self._formulation.getActuatorForces(found))
        normal = np.zeros(len(tick.stands))
        for present, (members, contact) in zip(self._present, self._holds, strict=True):
            if present:
                forces = self._formulation.getContactForce(contact.name, found).reshape(-1, 3)
                normal[members] = forces @ self._setup.normal
        return self._tau, normal, True

    def _change(self, tick: Any) -> None:
        """Add and remove contacts and tasks of frames. A contact is held where it is when it is added."""
        for i, (members, contact) in enumerate(self._holds):
            stands = bool(tick.stands[members].all())
            if stands and not self._present[i]:
                self._formulation.computeProblemData(self._t, tick.q, tick.v)
                contact.setReference(self._robot.framePosition(self._formulation.data(), self._id(members[0])))
                self._formulation.addRigidContact(contact, FORCE)
            elif self._present[i] and not stands:
                self._formulation.removeRigidContact(contact.name, 0.0)
            self._present[i] = stands
        for i, task in enumerate(self._frames):
            asked = not np.isnan(tick.frames[i, 0])
            if asked and not self._asked[i]:
                self._formulation.addMotionTask(task, FRAME, 1, 0.0)
            elif self._asked[i] and not asked:
                self._formulation.removeTask(task.name, 0.0)
            self._asked[i] = asked

    def _press(self, force: float) -> None:
        (contact,) = (contact for members, contact in self._holds if members == [self._setup.pressing])
        contact.setForceReference(np.array([0.0, 0.0, force]))
        if not self._pressing:
            contact.setRegularizationTaskWeightVector(np.array([1.0, 1.0, PRESSING / FORCE]))
            self._pressing = True


def _accelerating(demand: Array) -> Any:
    """Return the reference of a posture without gains that asks for joint accelerations."""
    sample = tsid.TrajectorySample(len(demand))
    for name, value in (("pos", np.zeros(len(demand))), ("vel", np.zeros(len(demand))), ("acc", demand)):
        getattr(sample, name)(value)
    return sample


def _sample(target: Array) -> Any:
    """Return the reference of a frame that follows a row of a curve (9) with constant attitude."""
    sample = tsid.TrajectorySample(12, 6)
    sample.pos(np.concatenate([target[:3], np.eye(3).ravel()]))
    sample.vel(np.concatenate([target[3:6], np.zeros(3)]))
    sample.acc(np.concatenate([target[6:], np.zeros(3)]))
    return sample
