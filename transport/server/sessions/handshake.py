"""The handshake: checks of a hello, and the welcome."""

import hashlib
from importlib.metadata import version
from typing import Any

import numpy as np

from controllers.contact.source import soles_of
from controllers.controller import Controller
from controllers.estimation.estimator import Estimator
from idyn.model.robot import Robot
from idyn.types import Array
from transport.protocol.agreement import Agreement, check_contact_frame
from transport.protocol.codec import limits as read_limits
from transport.protocol.codec import vector
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import JointMap, build_joint_map
from transport.protocol.messages.base import Code, Vector
from transport.protocol.messages.requests import ClientLimits, EffectiveLimits, Hello, Welcome
from transport.protocol.torque_gate import TorqueLimits, limits_of
from transport.server.settings import ServerSettings


def limits_in_force(robot: Robot, theirs: ClientLimits | None, joints: JointMap) -> TorqueLimits:
    """Return the stricter of the robot's and the client's limits, in the robot's order.

    Raises ProtocolError for malformed limits of the client.
    """
    limits = limits_of(robot.limits)
    if theirs is None:
        return limits

    def read(value: Vector | None, field: str, absent: Array) -> Array:
        if value is None:
            return absent
        return joints.torques_to_robot(read_limits(value, robot.na, f"limits.{field}"))

    unlimited = limits.dtau_max  # inf
    tau_max = read(theirs.tau_max, "tau_max", unlimited)
    dtau_max = read(theirs.dtau_max, "dtau_max", unlimited)
    v_max = read(theirs.v_max, "v_max", unlimited)
    q_min, q_max = read(theirs.q_min, "q_min", -unlimited), read(theirs.q_max, "q_max", unlimited)
    for field, value in (("tau_max", tau_max), ("dtau_max", dtau_max), ("v_max", v_max), ("q_max", q_max - q_min)):
        if not (value > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, f"limits.{field}", "expected numbers > 0 (q_max: > q_min) for every joint")
    tau0, v0 = unlimited, unlimited
    if theirs.speed_torque is not None:
        tau0, v0 = (
            joints.torques_to_robot(vector(getattr(theirs.speed_torque, name), robot.na, f"limits.speed_torque.{name}"))
            for name in ("tau0", "v0")
        )
        if not (tau0 > 0).all() or not (v0 > 0).all():
            raise ProtocolError(Code.BAD_SCHEMA, "limits.speed_torque", "expected tau0 > 0 and v0 > 0 for every joint")
    return TorqueLimits(
        tau_max=np.minimum(limits.tau_max, tau_max),
        dtau_max=dtau_max,
        q_min=np.maximum(limits.q_min, q_min),
        q_max=np.minimum(limits.q_max, q_max),
        v_max=np.minimum(limits.v_max, v_max),
        tau0=tau0,
        v0=v0,
    )


def effective_limits(limits: TorqueLimits, joints: JointMap) -> EffectiveLimits:
    """Return the limits of a session in the client's order, as in `welcome`."""
    return EffectiveLimits(**{name: joints.torques_on_wire(getattr(limits, name)) for name in limits.__struct_fields__})


SERVER = f"idyn {version('idyn')}"

MASS_TOLERANCE = 1e-3  # largest relative difference of total masses of the same robot
DT_RANGE = (1e-5, 0.1)  # range of nominal periods [s]; others are errors of units


class Host:
    """The server's side of a handshake. robot, controller_settings: of the controller; the latter as in `welcome`"""

    def __init__(self, controller: Controller, settings: ServerSettings) -> None:
        self.controller, self.settings, self.robot = controller, settings, controller.robot
        self.controller_settings: dict[str, Any] = controller.snapshot()["settings"]


def agree(hello: Hello, host: Host, data: bytes, now_ns: int) -> Agreement:
    """Check a hello against the host and return the agreement. Raises ProtocolError with the first field that differs.

    data: bytes of the hello; the session number is a hash of them and the time, so that a replay gets the same
    """
    _check_model(hello, host.robot)
    joints = build_joint_map(host.robot, hello.joint_names, hello.actuated, hello.base)
    if not DT_RANGE[0] <= hello.dt_nominal <= DT_RANGE[1]:
        low, high = DT_RANGE
        raise ProtocolError(Code.BAD_SCHEMA, "dt_nominal", f"expected {low} to {high} s, got {hello.dt_nominal}")
    if hello.mu is not None and not hello.mu >= 0:
        raise ProtocolError(Code.BAD_SCHEMA, "mu", f"expected ≥ 0, got {hello.mu}")
    return Agreement(
        id=session_id(data, now_ns, host.settings.session_bits),
        hello=data,
        robot=host.robot,
        joints=joints,
        limits=limits_in_force(host.robot, hello.limits, joints),
        dt_ns=round(hello.dt_nominal * 1e9),
        mu=hello.mu,
        contact_frames=_contact_frames(hello, host.robot),
        dry_run=hello.client.kind == "shadow",
        judges_start=hello.client.kind in ("robot", "sim"),
        robot_clock=hello.client.kind in ("sim", "replay"),
        soles=soles_of(host.robot) if host.controller_settings.get("contact", {}).get("whole_soles") else {},
        estimator=_estimator(hello, host),
    )


def welcome(agreement: Agreement, host: Host, latched: str) -> Welcome:
    """Return the answer to an accepted hello. latched: what stops the robot until `reset`, '' without a latch"""
    settings, robot = host.settings, host.robot
    return Welcome(
        session=agreement.id,
        server=SERVER,
        dry_run=agreement.dry_run,
        limits=effective_limits(agreement.limits, agreement.joints),
        watchdog_ms=settings.watchdog.hold_ms,
        latch_ms=settings.watchdog.latch_ms,
        deadline_us=settings.deadline_us,
        max_state_age_ms=settings.max_state_age_ms,
        mode="latched" if latched else "ok",
        latched=latched,
        model_name=robot.name,
        urdf_sha256=robot.urdf_sha256,
        joint_names=list(robot.joint_names),
        contact_frames=list(robot.contact_names),
        controller=host.controller_settings,
    )


def _estimator(hello: Hello, host: Host) -> Estimator | None:
    """Return an estimator of the base, None if the client measures it. Raises ProtocolError if the server has none."""
    if hello.base.measured == "state":
        return None
    found = host.controller.estimator()
    if found is None:
        problem = "expected 'state': the server's controller has no table [estimator]"
        raise ProtocolError(Code.BAD_SCHEMA, "base.measured", problem)
    return found


def _check_model(hello: Hello, robot: Robot) -> None:
    theirs = hello.model
    for field in ("urdf_sha256", "name", "nq", "nv", "na"):
        given, own = getattr(theirs, field), getattr(robot, field)
        if given is not None and (given.lower() if field == "urdf_sha256" else given) != own:
            _refuse_model(field, own, given)
    if not abs(theirs.total_mass - robot.total_mass) <= MASS_TOLERANCE * robot.total_mass:
        expected = f"{robot.total_mass:.4f} kg within {MASS_TOLERANCE:.1%}"
        _refuse_model("total_mass", expected, f"{theirs.total_mass:.4f} kg")


def _refuse_model(field: str, expected: object, got: object) -> None:
    raise ProtocolError(Code.MODEL_MISMATCH, f"model.{field}", f"expected {expected}, got {got}")


def _contact_frames(hello: Hello, robot: Robot) -> frozenset[str] | None:
    if hello.contact_frames is None:
        return None
    for i, frame in enumerate(hello.contact_frames):
        check_contact_frame(robot, frame, f"contact_frames[{i}]")
    return frozenset(hello.contact_frames)


def session_id(data: bytes, now_ns: int, bits: int) -> int:
    """Return the session number of a hello, below 2^bits: a hash of its bytes and the time, so that a replay gets the same."""
    digest = hashlib.blake2b(data + str(now_ns).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 2**bits or 1
