"""A tick of a robot as messages of ROS 2: SI units, quaternions xyzw, twists in the frame of the base.

The world of the server is the frame `odom`; the base is the root link of the model.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.model.robot import Robot
from idyn.tasks.motion import PostureTask
from idyn.types import Array
from transport.protocol.codec import numbers
from transport.protocol.errors import printable
from transport.protocol.joint_map import joint_slots
from transport.protocol.messages.requests import Stats, Tick
from transport.protocol.messages.state import Imu

WORLD = "odom"  # frame of the poses
ATTITUDE = slice(3, 7)  # of a floating base in q: quaternion xyzw

Message = dict[str, Any]


class Motion(NamedTuple):
    """State and torque of a tick: q (nq), v (nv), tau [N·m] (na); t_ns: time of the state by the robot's clock [ns]"""

    q: Array
    v: Array
    tau: Array
    t_ns: int


def motion_of(tick: Tick) -> Motion | None:
    """Return the state and torque of a tick; None without a state."""
    if tick.state is None or tick.tau is None:
        return None
    return Motion(numbers(tick.state.q), numbers(tick.state.vel), numbers(tick.tau), tick.state.t_robot)


def header(stamp_ns: int, frame: str = "") -> Message:
    """Return a `std_msgs/Header`. stamp_ns: time since 1970 [ns]"""
    sec, nanosec = divmod(stamp_ns, 1_000_000_000)
    return {"stamp": {"sec": sec, "nanosec": nanosec}, "frame_id": frame}


def _named(letters: str, vector: Sequence[float] | Array) -> Message:
    return dict(zip(letters, vector, strict=True))


class Converter:
    """Converts the ticks of a robot.

    base: root link; feet: each link with contact places → topic of its wrench
    """

    def __init__(self, robot: Robot) -> None:
        links, places = robot.frames.links, robot.description.contact
        self.base = next(name for name, parent in links.items() if not parent)
        self.feet = {place.frame: f"contacts/{re.sub(r'[^A-Za-z0-9_]', '_', place.frame)}" for place in places}
        self._imu = next((name for name in links if "imu" in name.lower()), self.base)
        self._links = dict(zip(robot.spheres.keys, (place.frame for place in places), strict=True))
        self._robot = robot
        motors = {int(dof): k for k, dof in enumerate(robot.tree.a)}
        slots = [slot for slot in joint_slots(robot) if len(slot.v) == 1]
        self._joints = [slot.name for slot in slots]
        self._q, self._v = [slot.q[0] for slot in slots], [slot.v[0] for slot in slots]
        self._tau = [motors.get(dof, robot.na) for dof in self._v]  # na: without a motor

    def joint_state(self, motion: Motion, stamp_ns: int) -> Message:
        """Return a `sensor_msgs/JointState` of all joints of one axis: angles, speeds, commanded torques, 0 without a motor."""
        return {
            "header": header(stamp_ns),
            "name": self._joints,
            "position": motion.q[self._q],
            "velocity": motion.v[self._v],
            "effort": np.append(motion.tau, 0.0)[self._tau],
        }

    def odometry(self, motion: Motion, stamp_ns: int) -> Message:
        """Return a `nav_msgs/Odometry` of a floating base."""
        q, v = motion.q, motion.v
        pose = {"position": _named("xyz", q[:3]), "orientation": _named("xyzw", q[ATTITUDE])}
        twist = {"linear": _named("xyz", v[:3]), "angular": _named("xyz", v[3:6])}
        return {
            "header": header(stamp_ns, WORLD),
            "child_frame_id": self.base,
            "pose": {"pose": pose},
            "twist": {"twist": twist},
        }

    def transform(self, motion: Motion, stamp_ns: int) -> Message:
        """Return a `tf2_msgs/TFMessage` with the pose of a floating base."""
        pose = {"translation": _named("xyz", motion.q[:3]), "rotation": _named("xyzw", motion.q[ATTITUDE])}
        return {"transforms": [{"header": header(stamp_ns, WORLD), "child_frame_id": self.base, "transform": pose}]}

    def imu(self, imu: Imu, stamp_ns: int) -> Message:
        """Return a `sensor_msgs/Imu`, in the first link whose name has `imu` in it, or in the base."""
        return {
            "header": header(stamp_ns, self._imu),
            "orientation": _named("xyzw", numbers(imu.quat)),
            "angular_velocity": _named("xyz", numbers(imu.gyro)),
            "linear_acceleration": _named("xyz", numbers(imu.acc)),
        }

    def wrenches(self, tick: Tick, motion: Motion, stamp_ns: int) -> dict[str, Message]:
        """Return link → `geometry_msgs/WrenchStamped`: the sum of the predicted contact forces on this link, and their moment
        about its origin, along its axes."""
        sums = {link: np.zeros(6) for link in self.feet}
        poses = {link: self._robot.frames.placement(link, motion.q) for link in self.feet}
        for each in tick.contact_force:
            if (link := self._links.get(each.frame)) is None:  # a pair of bodies
                continue
            to_link = poses[link].rotation.T
            force, lever = to_link @ numbers(each.force), to_link @ (numbers(each.point) - poses[link].translation)
            sums[link] += np.concatenate([force, np.cross(lever, force)])
        return {
            link: {
                "header": header(stamp_ns, link),
                "wrench": {"force": _named("xyz", wrench[:3]), "torque": _named("xyz", wrench[3:])},
            }
            for link, wrench in sums.items()
        }


TWIST, JOINTS = "geometry_msgs/Twist", "sensor_msgs/JointState"


def command_of(kind: str, message: Any) -> dict[str, Any]:
    """Return what a message commands, as arguments of `PlannerClient.command`. Raises InputError."""
    return {"velocity": velocity_of(message)} if kind == TWIST else {"tasks": [posture_of(message)]}


def velocity_of(twist: Any) -> Array:
    """Return the velocity that a `geometry_msgs/Twist` commands: forward, left [m/s], turn [rad/s] (3).

    A robot on legs follows no other components. Raises InputError for a number that is not finite.
    """
    velocity = np.array([twist.linear.x, twist.linear.y, twist.angular.z])
    if not np.isfinite(velocity).all():
        raise InputError(TWIST, f"expected finite numbers, got {velocity.tolist()}")
    return velocity


def posture_of(joints: Any) -> PostureTask:
    """Return the task that a `sensor_msgs/JointState` with positions, and perhaps velocities, commands.

    Raises InputError for efforts, and for vectors of a wrong length or with a number that is not finite.
    """
    names, angles, speeds = joints.name, joints.position.tolist(), joints.velocity.tolist()
    if len(joints.effort):
        raise InputError(f"{JOINTS}.effort", "expected none: the server computes the torques")
    if not names:
        raise InputError(f"{JOINTS}.name", "expected at least one joint")
    for field, values in (("position", angles), ("velocity", speeds or [0.0] * len(names))):
        if len(values) != len(names) or not np.isfinite(values).all():
            raise InputError(f"{JOINTS}.{field}", f"expected {len(names)} finite numbers, got {values}")
    return PostureTask(name="joint_commands", joints=names, angles=angles, velocity=speeds or None)


OK, WARN, ERROR, STALE = 0, 1, 2, 3  # levels of a status
LEVELS = {"ok": OK, "degraded": WARN, "hold": WARN, "damping": ERROR, "fault": ERROR}  # status of an answer → level


def diagnostics(hardware: str, stamp_ns: int, tick: Tick | None, stats: Stats | None, refusal: str) -> Message:
    """Return the status of controller, server and commands.

    hardware: name of the robot; tick, stats: None without an answer of the server; refusal: why the last command had no effect
    """
    statuses = [_controller(tick), _server(stats), _status("commands", WARN if refusal else OK, refusal or "accepted", {})]
    return {"header": header(stamp_ns), "status": [status | {"hardware_id": hardware} for status in statuses]}


def _controller(tick: Tick | None) -> Message:
    if tick is None or tick.state is None:
        return _status("controller", STALE, "no client controls the robot", {})
    return _status("controller", LEVELS.get(tick.status, WARN), tick.message or tick.status, {"status": tick.status})


def _server(stats: Stats | None) -> Message:
    if stats is None:
        return _status("server", ERROR, "no answer", {})
    values = {
        "states": stats.states,
        "torques": stats.torques,
        "late answers": stats.deadline_misses,
        "refused": sum(stats.refused.values()),
        "mean step [µs]": round(stats.step_us_mean),
    }
    return _status("server", ERROR if stats.fault else OK, stats.fault or "runs", values)


def _status(name: str, level: int, message: str, values: Mapping[str, Any]) -> Message:
    pairs = [{"key": key, "value": str(value)} for key, value in values.items()]
    return {"name": f"idyn: {name}", "level": level, "message": printable(message), "values": pairs}
