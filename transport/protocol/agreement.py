"""The result of a handshake: everything that is needed to read the client's messages."""

from collections.abc import Mapping

from controllers.estimation.estimator import Estimator
from idyn.contact.contacts import refused_wheel
from idyn.errors import FrameNotFound, nearest
from idyn.model.robot import Robot
from idyn.types import Record
from transport.protocol.errors import ProtocolError
from transport.protocol.joint_map import JointMap
from transport.protocol.messages.base import Code
from transport.protocol.torque_gate import TorqueLimits


class Agreement(Record, frozen=True):
    """Parameters of a session, fixed by its handshake."""

    id: int  # session number
    hello: bytes  # bytes of the message that started the session
    robot: Robot
    joints: JointMap  # conversion between the client's and the robot's order of joints
    limits: TorqueLimits  # the effective ones
    dt_ns: int  # nominal period [ns]
    mu: float | None  # default friction coefficient of contacts without one; None: the robot's own
    contact_frames: frozenset[str] | None  # frames that contacts may name; None: all frames of the model
    dry_run: bool  # the client is a shadow
    judges_start: bool  # the first state must be that of a robot at rest: not for shadows and replays
    robot_clock: bool  # watchdog and age of states use the robot's clock only, because the client is simulated or replayed
    soles: Mapping[str, str]  # contact place → its link, whose places count as closed together; empty: each for itself
    estimator: Estimator | None = None  # of the base, of its own; None: the client measures it


def check_contact_frame(robot: Robot, frame: str, field: str) -> None:
    """Raise ProtocolError `contact_unknown` unless `frame` is a contact place, a contact pair or a frame of the robot that is
    no wheel's."""
    if frame in robot.contact_names:
        return
    if frame in robot.wheel_frames:
        raise ProtocolError(Code.CONTACT_UNKNOWN, field, refused_wheel(frame))
    try:
        robot.joint_of_frame(frame)
    except FrameNotFound as error:
        hint = nearest(frame, robot.spheres.keys) or f" ({error})"
        raise ProtocolError(Code.CONTACT_UNKNOWN, field, f"the robot has no frame '{frame}'{hint}") from None
