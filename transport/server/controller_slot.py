"""A controller in service, and the reply that its command becomes."""

from typing import Any

import numpy as np

from controllers.command import Command, Mode
from controllers.controller import Controller
from controllers.estimation.estimator import Estimate
from controllers.monitor.safety import SafetySettings, torque_rates
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Prediction, Record
from transport.protocol.contact_input import FootSwitches
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages import state as wire
from transport.protocol.messages.command import SeenState
from transport.protocol.messages.requests import Tick, WorldForce
from transport.protocol.state_input import Measured
from transport.protocol.torque_gate import Passed, TorqueLimits, TwinGate
from transport.server.sessions.session import Accepted


class Decision(Record, frozen=True):
    """An accepted state and its answer."""

    accepted: Accepted
    # contacts, command: of the tick
    contacts: ContactSet
    command: Command
    tau: Array  # torque after the gate, in the robot's order [N·m] (na)
    reply: Any  # as sent: `wire.TorqueMessage`, of a replay one with fewer fields
    step_ns: int  # duration of the controller's step [ns]


def torque_message(
    accepted: Accepted, command: Command, passed: Passed, note: str, times: tuple[int, int, int], *, in_time: bool, warm: bool
) -> wire.TorqueMessage:
    """Return the reply to an accepted state.

    passed: torques of the command after the gate; note: for the client, '' without any
    times: arrival of the state and sending of the answer, server's clock, and duration of the controller's step [ns]
    in_time: within the time budget; warm: a previous answer was available as a warm start
    """
    session, request, measured, prediction = accepted.session, accepted.message, accepted.measured, command.prediction
    t_recv, t_send, step_ns = times
    joints = session.agreement.joints
    out = joints.torques_on_wire
    valid_until = request.t_robot + session.hold_ns
    dry_run = session.agreement.dry_run or (request.flags is not None and request.flags.dry_run)
    limited_by = joints.torques_to_client(passed.limited_by).tolist()
    contact_force = [] if prediction is None else _contact_forces(prediction)
    solver = None if prediction is None else _solver(prediction, step_ns, len(contact_force), warm=warm)
    wanted, found = command.reference, command.reality
    ref = None if wanted is None else wire.Reference(q=out(wanted.q), v=out(wanted.v), a=out(wanted.a))
    kp, kd = (None, None) if command.drive is None else (out(command.drive.kp), out(command.drive.kd))
    reality = None if found is None else wire.Reality(motion=found.motion, force=found.force)
    return wire.TorqueMessage(  # positional, in the order of the fields: keywords would cost as much time as the forces
        session.id,
        request.seq,
        request.t_robot,
        t_recv,
        t_send,
        in_time,
        valid_until,
        dry_run,
        out(passed.tau),
        out(passed.tau_ff),
        out(passed.tau_fb),
        limited_by,
        command.mode.value,
        note,
        contact_force,
        solver,
        session.comm.report,
        measured.watchdog,
        ref,
        kp,
        kd,
        list(command.missing),
        reality,
        [wire.TaskReport(each.name, each.level, each.met, each.missed) for each in command.outcomes],
        passed.ff_changed,
        None if wanted is None or wanted.pose is None else wanted.pose.tolist(),
        None if measured.estimate is None else _estimate(measured.estimate, session.agreement.robot),
    )


def _estimate(estimate: Estimate, robot: Robot) -> wire.BaseEstimate:
    q, v, feet = estimate.state.q.tolist(), estimate.state.v.tolist(), []
    rows = estimate.touching.tolist(), estimate.probability.tolist(), estimate.slipped.tolist()
    for key, touches, probability, slipped in zip(robot.spheres.keys, *rows, strict=True):
        feet.append(wire.FootEstimate(key, touches, probability, slipped))
    return wire.BaseEstimate(q[:3], q[3:BASE_Q], v[:BASE_V], estimate.deviations.tolist(), feet)


def tick_message(robot: Robot, decision: Decision | None) -> Tick:
    """Return the message to an observer about an accepted state and its answer; None: there is no such state."""
    if decision is None:
        return Tick(urdf_sha256=robot.urdf_sha256)
    message, state, prediction = decision.accepted.message, decision.accepted.measured.state, decision.command.prediction
    points = dict(zip(decision.contacts.keys, decision.contacts.points, strict=True))
    forces = {} if prediction is None else dict(zip(prediction.keys, prediction.force, strict=True))
    return Tick(
        urdf_sha256=robot.urdf_sha256,
        state=SeenState(t_robot=message.t_robot, q=state.q.tobytes(), vel=state.v.tobytes()),
        tau=decision.tau.tobytes(),
        contact_force=[
            WorldForce(frame=key, point=points[key].tobytes(), force=force.tobytes())
            for key, force in forces.items()
            if key in points
        ],
        imu=message.imu,
        status=decision.command.mode.value,
        message=decision.reply.message,
    )


def _contact_forces(prediction: Prediction) -> list[wire.ContactForce]:
    impulses, dt, forces = iter(prediction.p.tolist()), prediction.dt, []
    for key, s, t, n in zip(prediction.keys, impulses, impulses, impulses):  # noqa: B905
        forces.append(wire.ContactForce(key, n / dt, s / dt, t / dt))
    return forces


def _solver(prediction: Prediction, step_ns: int, n_contacts: int, *, warm: bool) -> wire.Solver:
    residuals = prediction.residuals
    return wire.Solver(  # positional, as above
        prediction.law,
        prediction.rung,
        prediction.iterations,
        warm,
        step_ns * 1e-3,
        max(residuals.cone, residuals.penetration, residuals.slip),
        residuals.complementarity,
        residuals.dynamics,
        residuals.demand,
        n_contacts,
        prediction.null_dim,
        prediction.demand_change,
    )


RUNS = (Mode.OK, Mode.DEGRADED)  # modes in which the torque follows the model
GATED = 50  # ticks after a torque that the gate changed in which motors are not compared with the controller's torques


class ControllerSlot:
    """A controller and its last torques.

    last: last answered state with its answer; None: not yet
    last_tau: torque sent to the client [N·m] (na); None: not yet
    last_ff: its feed-forward part [N·m] (na); None: not yet, and after a torque that did not follow the model
    """

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        safety = controller.snapshot()["settings"].get("safety", {})
        own = SafetySettings(torque_rate=safety.get("torque_rate", np.inf))
        self._rates = torque_rates(own, controller.robot.limits)
        self._gate: tuple[TorqueLimits, TwinGate] | None = None  # of the session
        self._gated = 0
        self.last: Decision | None = None
        self.last_tau: Array | None = None
        self.last_ff: Array | None = None

    def reset(self) -> None:
        """Reset the controller and forget the last torques."""
        self.controller.reset()
        self.last = self.last_tau = self.last_ff = None

    def contacts(self, measured: Measured) -> ContactSet:
        """Return the contacts of a state: as measured, or from geometry (of all feet, or of those with a closed switch).

        Switches that contradict forces and kinematics are named in `doubt`. After torques that the gate changed the controller
        must not expect its own ones.
        """
        given, state = measured.contacts, measured.state
        if self._gated:
            measured.follows = False
        if given is None:
            return self.controller.contacts(state)
        if not isinstance(given, FootSwitches):
            return given
        contacts, problem = self.controller.believed(state, given.keys, measured, given.forces)
        measured.doubt = measured.doubt or problem
        return given.on(contacts)

    def gate(self, measured: Measured, command: Command, limits: TorqueLimits) -> Passed:
        """Return the torques of a command, and their feed-forward part, within the limits.

        limits: of the session
        The rate of the feed-forward part counts from the last one. A torque that stops or damps has none, at once.
        """
        if self._gate is None or self._gate[0] is not limits:
            self._gate = limits, TwinGate(limits, self._rates)
        runs = command.mode in RUNS
        before = self.last_tau if measured.tau_applied is None else measured.tau_applied, self.last_ff if runs else None
        torques, at = (command.tau, command.tau_ff), (measured.angles, measured.speeds)
        passed = self._gate[1].apply(torques, at, before, measured.dt, command.limited_by)
        if passed.changed or self._gated:
            self._gated = GATED if passed.changed else self._gated - 1
        self.last_ff = passed.tau_ff if runs else None
        return passed
