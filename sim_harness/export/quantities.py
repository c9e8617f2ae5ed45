"""The quantities of an exported log: the one table of topics, fields and units for all formats.

`docs/how-to/replay-and-logs.md` shows it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.measure.metrics import normal_forces
from sim_harness.run.logs import REFUSED_STATE, Block
from transport.protocol.codec import vector
from transport.protocol.messages.base import Vector
from transport.protocol.messages.state import StateMessage, TorqueMessage

JOINTS, CONTACTS = ("JOINT",), ("CONTACT_n", "CONTACT_t1", "CONTACT_t2")
"""Fields of a quantity with a value per actuated joint, and with three per contact; the names replace the capitals."""

STATUSES = ("ok", "degraded", "hold", "damping", "fault", REFUSED_STATE)
"""Statuses of replies, by the number of the field `status.level`."""

XYZ = ("x", "y", "z")


class Quantity(NamedTuple):
    """A row of the table. fields: names, or JOINTS or CONTACTS; values: of n ticks (n, number of fields), NaN where absent"""

    topic: str
    fields: tuple[str, ...]
    unit: str
    meaning: str
    values: Callable[[Block], Array]
    base: bool = False  # whether robots with a fixed base do not have it

    def names(self, robot: Robot) -> tuple[str, ...]:
        """Return the names of the fields for a robot."""
        if self.fields == JOINTS:
            return robot.joint_names
        if self.fields == CONTACTS:
            return tuple(field.replace("CONTACT", name) for name in robot.contact_names for field in CONTACTS)
        return self.fields


def quantities_of(robot: Robot) -> list[Quantity]:
    """Return the quantities that a robot has."""
    return [each for each in QUANTITIES if each.names(robot) and (robot.floating or not each.base)]


def _positions(block: Block) -> Array:
    robot = block.controller.robot
    return np.array([robot.joint_angles(q) for q in block.trace.q])


def _of_joints(pick: Callable[[Block, StateMessage, TorqueMessage], Array | None]) -> Callable[[Block], Array]:
    """Return the values of vectors of answered states, in the robot's order of joints. pick: in the order of the client"""

    def values(block: Block) -> Array:
        found = np.full((len(block.exchanges), block.controller.robot.na), np.nan)
        for row, exchange in enumerate(block.exchanges):
            if isinstance(exchange.reply, TorqueMessage):  # a refused state may have a wrong size
                given = pick(block, exchange.state, exchange.reply)
                if given is not None:
                    found[row] = block.agreement.joints.torques_to_robot(given)
        return found

    return values


def _torques(pick: Callable[[TorqueMessage], Vector]) -> Callable[[Block], Array]:
    return _of_joints(lambda block, _, reply: vector(pick(reply), block.controller.robot.na, "tau"))


def _limits(_block: Block, _state: StateMessage, reply: TorqueMessage) -> Array:
    return np.array(reply.limited_by)


def _applied(block: Block, state: StateMessage, _: TorqueMessage) -> Array | None:
    sent = state.tau_applied
    return None if sent is None else vector(sent, block.controller.robot.na, "tau_applied")


def _part(part: str, *names: str) -> Callable[[Block], Array]:
    """Return numbers of a part of the replies, such as `solver`; NaN where the reply does not have them."""

    def values(block: Block) -> Array:
        found = np.full((len(block.exchanges), len(names)), np.nan)
        for row, exchange in enumerate(block.exchanges):
            given = getattr(exchange.reply, part, None)  # a refusal has no parts
            if given is not None:
                found[row] = np.array([getattr(given, name) for name in names], dtype=np.float64)  # None becomes NaN
        return found

    return values


def _attitude(block: Block) -> Array:
    quaternions = block.trace.q[:, 3:7]
    found = np.full((len(quaternions), 3), np.nan)
    good = np.linalg.norm(quaternions, axis=1) > 0  # False for NaN
    if good.any():
        found[good] = Rotation.from_quat(quaternions[good]).as_euler("ZYX")[:, ::-1]
    return found


def _force_sums(block: Block) -> Array:
    return np.stack(normal_forces(block.trace), axis=1)


def _times(block: Block) -> Array:
    trips = [np.nan if each.state.rtt_us is None else each.state.rtt_us for each in block.exchanges]
    return np.column_stack([block.trace.solve_time * 1e6, trips, 1e3 * _part("comm", "age_ms")(block)])


def _levels(block: Block) -> Array:
    trace = block.trace
    return np.array([STATUSES.index(mode) for mode in trace.modes], dtype=np.float64)[trace.mode][:, None]


def _numbers(block: Block) -> Array:
    return np.array([[each.state.seq] for each in block.exchanges], dtype=np.float64)


QUANTITIES = (
    Quantity("/position", JOINTS, "rad", "measured position", _positions),
    Quantity("/velocity", JOINTS, "rad/s", "measured velocity", lambda block: block.trace.v[:, block.controller.robot.tree.a]),
    Quantity("/position_ref", JOINTS, "rad", "reference position", lambda block: block.trace.q_ref),
    Quantity("/velocity_ref", JOINTS, "rad/s", "reference velocity", lambda block: block.trace.v_ref),
    Quantity("/torque", JOINTS, "N·m", "torque of the reply, `tau`", lambda block: block.trace.tau),
    Quantity("/torque_ff", JOINTS, "N·m", "its part from inverse dynamics, `tau_ff`", _torques(lambda reply: reply.tau_ff)),
    Quantity("/torque_fb", JOINTS, "N·m", "its part from feedback, `tau_fb`", _torques(lambda reply: reply.tau_fb)),
    Quantity("/torque_applied", JOINTS, "N·m", "torque that the motor applied last, if sent", _of_joints(_applied)),
    Quantity("/limited_by", JOINTS, "bits", "what limited the torque, as in the reply", _of_joints(_limits)),
    Quantity("/force_predicted", CONTACTS, "N", "predicted force on the robot", lambda block: _flat(block.trace.predicted)),
    Quantity("/force_sensed", CONTACTS, "N", "sensed force, `f_sensed`", lambda block: _flat(block.trace.simulated)),
    Quantity("/normal_force", ("predicted", "sensed"), "N", "sum of the normal forces", _force_sums),
    Quantity("/base_position", XYZ, "m", "position in the world", lambda block: block.trace.q[:, :3], base=True),
    Quantity("/base_attitude", ("roll", "pitch", "yaw"), "rad", "attitude", _attitude, base=True),
    Quantity("/base_velocity", XYZ, "m/s", "velocity in its axes", lambda block: block.trace.v[:, :3], base=True),
    Quantity("/base_rate", XYZ, "rad/s", "angular velocity in its axes", lambda block: block.trace.v[:, 3:6], base=True),
    Quantity(
        "/residual",
        ("primal", "complementarity", "dynamics", "demand"),
        "as in the reply",
        "residuals of the certificate",
        _part("solver", "res_primal", "res_comp", "res_dyn", "res_demand"),
    ),
    Quantity(
        "/solver",
        ("iterations", "contacts", "null_space"),
        "1",
        "pivots; contacts; dimension of the null space",
        _part("solver", "iters", "n_contacts", "null_dim"),
    ),
    Quantity(
        "/demand_change", ("value",), "rad/s", "change of joint velocities by projection", _part("solver", "demand_change")
    ),
    Quantity("/time", ("step", "round_trip", "age"), "µs", "controller step; last round trip; delay of the state", _times),
    Quantity(
        "/link",
        ("success_100", "lost", "late", "duplicate", "out_of_order"),
        "1",
        "share of answered states; counts of the transmission",
        _part("comm", "success_100", "lost", "late", "dup", "out_of_order"),
    ),
    Quantity("/watchdog", ("misses",), "1", "ticks without a state before this one", _part("watchdog", "misses")),
    Quantity(
        "/mismatch",
        ("motion", "force"),
        "g, weight of the robot",
        "model-mismatch monitor, `reality`",
        _part("reality", "motion", "force"),
    ),
    Quantity("/status", ("level",), "1", f"0 to {len(STATUSES) - 1}: {', '.join(STATUSES)}", _levels),
    Quantity("/seq", ("value",), "1", "number of the state in its session", _numbers),
)
"""All quantities, one value per tick."""


def _flat(forces: Array) -> Array:
    return forces.reshape(len(forces), -1)
