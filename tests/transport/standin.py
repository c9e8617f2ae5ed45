"""A small real controller, and a client's messages, for the tests of the transport."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode, Steering
from controllers.planners.pose import check_pose
from controllers.robot.load import urdf_path
from idyn import ContactPoint, Description, Flat, InputError, Robot, Status, contacts_from_geometry, contacts_of_places
from idyn.tasks import TaskStack
from idyn.types import Array, ContactSet, Guess, Prediction, Residuals, State
from transport.protocol.messages.requests import Base, Client, Hello, Model
from transport.protocol.messages.state import StateMessage

MS = 1_000_000
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
POSES = np.array([[-0.05, 0.02], [-0.2, 0.2], [-0.1, 0.1]])
URDF = "example-robot-data:solo_description/robots/solo12.urdf"


def solo(text: str | None = None) -> Robot:
    text = text or urdf_path(URDF, Path("/")).read_text(encoding="utf-8")
    return Robot(Description(urdf=text, contact=tuple(ContactPoint(frame=foot, radius=0.016) for foot in FEET)))


def standing(robot: Robot) -> Array:
    q = robot.neutral()
    q[2] = 0.3
    return q


class SpringDamper:
    """Joint springs and dampers with an integral, so that a wrong replay shows; each foot carries its share of the weight."""

    steers = realises_tasks = True

    def __init__(self, robot: Robot, *, kp: float = 3.0, law: str = "springs") -> None:
        self.robot = robot
        self.stance = robot.neutral()
        self.kp = kp
        self.law = law
        self.fail = False
        self.steps = 0
        self.last: Inputs | None = None
        self.seen: State | None = None
        self.felt: ContactSet | None = None
        self.reset()

    def contacts(self, at: Array | State, touching: Sequence[str] | None = None) -> ContactSet:
        q = at.q if isinstance(at, State) else at
        if touching is None:
            return contacts_from_geometry(self.robot, q, Flat(), margin=10.0)
        return contacts_of_places(self.robot, q, Flat(), touching)

    def believed(
        self, state: State, closed: tuple[str, ...], inputs: Inputs, forces: dict[str, float]
    ) -> tuple[ContactSet, str]:
        return self.contacts(state, closed), ""

    def settle(self) -> None: ...

    def estimator(self):
        return None

    def check_steering(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        if steering.velocity is not None and not self.steers:
            raise InputError("velocity", "this controller has no gait")
        if steering.posed:
            check_pose(steering.pose, POSES)

    def reset(self) -> None:
        self.integral = np.zeros(self.robot.na)

    def snapshot(self) -> dict[str, Any]:
        return {"urdf": self.robot.description.urdf, "settings": {"law": self.law, "feedback": {"kp": self.kp}}}

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        if self.fail:
            raise RuntimeError("a wire came loose")
        self.steps += 1
        self.last, self.seen, self.felt = inputs, state, contacts
        angles, v = state.q[7:], state.v[self.robot.tree.a]
        self.integral = self.integral + inputs.dt * angles
        tau_fb = -self.kp * angles - 0.1 * v - self.integral
        tau_ff = np.full(self.robot.na, 0.01)
        n = len(contacts)
        weight = np.full(n, self.robot.total_mass * 9.81 / max(1, n))
        force = weight[:, None] * contacts.normals
        guess = Guess(law=self.law, keys=contacts.keys, basis=np.zeros((n, 1)), tau=tau_ff, force=force)
        prediction = Prediction(
            tau=tau_ff,
            force=force,
            p=np.column_stack([np.zeros(n), np.zeros(n), weight * 1e-3]).ravel(),
            dt=1e-3,
            v_plus=state.v,
            status=Status.SOLVED,
            law=self.law,
            rung="first",
            iterations=1,
            residuals=Residuals(dynamics=0.0, demand=0.0, complementarity=0.0, cone=0.0, penetration=0.0, slip=0.0),
            demand_change=0.0,
            torque_excess=0.0,
            force_excess=0.0,
            null_dim=0,
            closing=np.zeros(0),
            guess=guess,
        )
        mode = Mode.DAMPING if inputs.estop else Mode.FAULT if state.q[2] > 1.0 else Mode.OK
        torques = {"tau": tau_ff + tau_fb, "tau_ff": tau_ff, "tau_fb": tau_fb, "limited_by": np.zeros(self.robot.na, np.int64)}
        return Command(**torques, mode=mode, prediction=prediction, message="" if mode is Mode.OK else "the base flies")


def from_snapshot(snapshot: dict[str, Any]) -> SpringDamper:
    settings = snapshot["settings"]
    return SpringDamper(solo(snapshot["urdf"]), kp=settings["feedback"]["kp"], law=settings["law"])


def hello(robot: Robot, kind: str = "robot", **changes: Any) -> Hello:
    fields: dict[str, Any] = {
        "client": Client(name="test", kind=kind),
        "model": Model(nq=robot.nq, nv=robot.nv, na=robot.na, total_mass=robot.total_mass, urdf_sha256=robot.urdf_sha256),
        "joint_names": list(robot.joint_names),
        "actuated": list(robot.joint_names),
        "base": Base(type="free_flyer", quat_order="xyzw", vel_frame="local"),
        "dt_nominal": 1e-3,
    }
    return Hello(**(fields | changes))


def state(robot: Robot, session: int, seq: int, **changes: Any) -> StateMessage:
    fields: dict[str, Any] = {"session": session, "seq": seq, "t_send": seq * MS, "tau_applied": np.zeros(robot.na).tobytes()}
    return resting(robot, seq, **(fields | changes))


def resting(robot: Robot, t_ms: int, **changes: Any) -> StateMessage:
    """A state at rest, without a session, for a client that fills it in. t_ms: the robot's time"""
    fields = {"q": standing(robot).tobytes(), "vel": np.zeros(robot.nv).tobytes(), "t_robot": t_ms * MS}
    return StateMessage(**(fields | changes))


def in_full(message: object) -> bytes:
    """A message with every field written, as by a client that leaves out no defaults."""
    return msgpack.packb(_fields(message))


def _fields(value: object) -> object:
    if isinstance(value, list):
        return [_fields(part) for part in value]
    if not isinstance(value, msgspec.Struct):
        return value
    tag = value.__struct_config__.tag
    fields = {name: _fields(getattr(value, name)) for name in value.__struct_fields__}
    return fields if tag is None else {"t": tag} | fields
