"""The order of joints: a client's, and the robot's."""

from collections.abc import Callable, Sequence
from xml.etree import ElementTree

import msgspec
import numpy as np

from idyn.errors import nearest
from idyn.model.mjcf import is_mjcf
from idyn.model.robot import Robot
from idyn.model.so3 import rotation
from idyn.model.urdf import ROOT_JOINT
from idyn.types import Array, Record
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code
from transport.protocol.messages.requests import Base

BASE_Q, BASE_V = 7, 6  # sizes of the free flyer in q (position, quaternion xyzw) and v (linear, angular)


class JointSlots(msgspec.Struct, frozen=True):
    """Indices of one joint in the robot's q and v."""

    name: str
    q: tuple[int, ...]
    v: tuple[int, ...]


class JointMap(Record, frozen=True):
    """Index arrays for reordering: robot = client[index] and back."""

    state: Array  # client → robot for q, v and τ, concatenated (nq + nv + na)
    tau: Array | None  # client's `actuated` → robot (na); None: same order
    tau_back: Array | None  # robot → client's `actuated` (na); None: same order
    base_in_world: bool  # the client's base velocity is in world axes
    # converts torques, or other values per motor (na), to a wire vector in the client's order
    torques_on_wire: Callable[[Array], bytes]

    def base_to_body(self, v: Array, q: Array) -> None:
        """Rotate the base velocity in v (nv) from world axes to body axes at q (nq), in place."""
        to_body = rotation(q[3:7]).T
        v[0:3], v[3:6] = to_body @ v[0:3], to_body @ v[3:6]

    def torques_to_robot(self, tau: Array) -> Array:
        """Return values per motor (na) in the robot's order."""
        return tau if self.tau is None else tau[self.tau]

    def torques_to_client(self, tau: Array) -> Array:
        """Return values per motor (na) in the client's order."""
        return tau if self.tau_back is None else tau[self.tau_back]


def build_joint_map(robot: Robot, joint_names: Sequence[str], actuated: Sequence[str], base: Base) -> JointMap:
    """Build the map for a client's `hello`.

    Raises ProtocolError `joint_map` for unknown, missing and repeated names, and for another base type.
    """
    if base.type != robot.description.base:
        raise ProtocolError(Code.JOINT_MAP, "base.type", f"expected '{robot.description.base}', got '{base.type}'")
    slots = joint_slots(robot)
    _check_names("joint_names", joint_names, [slot.name for slot in slots])
    _check_names("actuated", actuated, robot.joint_names)
    free = robot.floating
    ordered = sorted(slots, key=lambda slot: joint_names.index(slot.name))
    q = _inverse([*range(BASE_Q if free else 0), *(i for slot in ordered for i in slot.q)])
    v = _inverse([*range(BASE_V if free else 0), *(i for slot in ordered for i in slot.v)])
    back = np.array([robot.joint_names.index(name) for name in actuated], dtype=np.int64)
    tau = _inverse(back)
    tau_back = _unless_identity(back)
    return JointMap(
        state=np.concatenate([q, robot.nq + v, robot.nq + robot.nv + tau]),
        tau=_unless_identity(tau),
        tau_back=tau_back,
        base_in_world=free and base.vel_frame == "local_world_aligned",
        torques_on_wire=np.ndarray.tobytes if tau_back is None else lambda torques: torques[tau_back].tobytes(),
    )


def joint_slots(robot: Robot) -> list[JointSlots]:
    """Return the slots of all moving joints except the floating base, in the robot's order."""
    slots = []
    neutral = robot.neutral()
    for name in _moving_joints(robot.description.urdf):
        columns = np.flatnonzero(robot.tree.dof_joint == robot.joint_of_frame(name))
        moved = np.zeros(robot.nq, dtype=np.bool_)
        for column in columns:
            step = np.zeros(robot.nv)
            step[column] = 0.5
            moved |= robot.integrate(neutral, step) != neutral
        slots.append(JointSlots(name, tuple(np.flatnonzero(moved).tolist()), tuple(columns.tolist())))
    return sorted(slots, key=lambda slot: slot.v)


def _moving_joints(text: str) -> list[str]:
    root = ElementTree.fromstring(text)
    if is_mjcf(text):
        names = [joint.get("name", "") for joint in root.iterfind("worldbody//joint")]
        return [name for name in names if name != ROOT_JOINT]
    return [joint.get("name", "") for joint in root.findall("joint") if joint.get("type") != "fixed"]


def _check_names(field: str, theirs: Sequence[str], mine: Sequence[str]) -> None:
    for name in theirs:
        if name not in mine:
            raise ProtocolError(Code.JOINT_MAP, field, f"the robot has no joint '{name}'{nearest(name, mine)}")
        if list(theirs).count(name) > 1:
            raise ProtocolError(Code.JOINT_MAP, field, f"joint '{name}' appears twice")
    for name in mine:
        if name not in theirs:
            raise ProtocolError(Code.JOINT_MAP, field, f"joint '{name}' is missing")


def _inverse(order: Sequence[int] | Array) -> Array:
    """Return the inverse permutation: order[inverse[i]] = i."""
    return np.argsort(np.array(order, dtype=np.int64))


def _unless_identity(index: Array) -> Array | None:
    return None if (index == np.arange(len(index))).all() else index
