"""A controller: state and contacts in, a torque command out, once per tick."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode, Reference, Schedule
from controllers.drive import drive_gains
from controllers.feedback.delay_compensation import DelayCompensation
from controllers.feedback.grip import Grip
from controllers.feedback.joints import JointFeedback
from controllers.feedback.stabilisation import Stabilisation, standing_height
from controllers.feedforward import Forecast, Want, make_feedforward
from controllers.monitor.reality import Reality
from controllers.monitor.safety import Safety
from controllers.settings import ControllerSettings
from idyn.contact.contacts import contacts_from_geometry, contacts_of_places
from idyn.errors import ConfigError, InputError
from idyn.model.robot import Robot
from idyn.model.tree import Limits
from idyn.prediction.precompile import Way
from idyn.terms.inputs import check_size
from idyn.types import Array, ContactSet, State


class Controller:
    """Joint feedback → demand → `idyn.predict` → safety. Its parts own all memory between ticks."""

    def __init__(self, settings: ControllerSettings, robot: Robot, stance: Array) -> None:
        """`stance`: the configuration that trajectories start from (nq). Raises ConfigError for values that make none."""
        if not 0 < settings.period < np.inf:
            raise ConfigError("period", f"expected a finite number > 0, got {settings.period}")
        self.settings, self.robot, self.stance = settings, robot, stance
        contact, period = settings.contact, settings.period
        self.terrain = contact.terrain.build(contact.ground)
        self._mu = None if contact.mu is None else np.full(len(robot.contact_names), contact.mu)
        self._source = contact.source.build(robot, contact.margin, settings.ground.build(), period)
        self._grip = settings.grip.build(robot) if settings.grip else Grip(robot)
        self._feedforward = make_feedforward(settings, robot, self._source, self._grip)
        self._trajectory = settings.reference.build(robot, stance, period)
        self._delay_compensation = DelayCompensation(robot, period)
        self._reality = Reality(settings.reality, robot, period)
        self._feedback = JointFeedback(settings.feedback, robot)
        self._torque_feedback = JointFeedback(settings.torque_feedback, robot)
        self._stabilisation = Stabilisation(settings.stabilisation, robot, standing_height(robot, stance))
        self._safety = Safety(settings.safety, robot, robot.limits)
        self._no_torque = np.zeros(robot.na)
        self._no_torque.flags.writeable = False
        self._drive = drive_gains(settings.drive, robot, self._grip.joints)
        self._understudy: Controller | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next step is the first."""
        self._time = self._shown = 0.0  # since the first tick, and that of the last reference [s]
        self._unsettled: tuple[State, Forecast, Array] | None = None  # and what the motors were told, but for those that press
        self._last: tuple[State, ContactSet, Inputs] | None = None
        for part in (
            self._source,
            self._feedforward,
            self._trajectory,
            self._delay_compensation,
            self._reality,
            self._feedback,
            self._torque_feedback,
            self._safety,
        ):
            part.reset()
        if self._understudy is not None:
            self._understudy.reset()

    @property
    def limits(self) -> Limits:
        """The robot's own limits."""
        return self.robot.limits

    def contacts(self, q: Array, touching: Sequence[str] | None = None) -> ContactSet:
        """Contacts from geometry at configuration q; or those of the places `touching`, in that order: their points and normals
        are those of geometry, their gaps 0 whatever it says."""
        if touching is None:
            return contacts_from_geometry(self.robot, q, self.terrain, margin=self._source.reach, mu=self._mu)
        return contacts_of_places(self.robot, q, self.terrain, touching, mu=self._mu)

    def step(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """One tick: `answer`, then `settle`."""
        command = self.answer(state, contacts, inputs)
        self.settle()
        return command

    def settle(self) -> None:
        """What an answer leaves to be done once it is on its way: remember what was predicted with it, to hold it against the
        world. No other use of the robot in between, nor changes to what was given and answered."""
        if self._unsettled is None:
            return
        (state, forecast, told), self._unsettled = self._unsettled, None
        prediction, contacts = forecast.prediction, forecast.contacts
        if prediction is not None:
            self._delay_compensation.note(state.v, prediction.v_plus, prediction.dt)
            self._reality.expect(prediction, told - forecast.tau, self._feedforward.dynamics(state, contacts))

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """The torques of a tick. `Command.mode` and `.message` say when they are not the law's own answer; never raises on
        numbers, whatever they are. Raises InputError for a state or a schedule that is not of the robot's size."""
        self.settle()  # if nobody did
        state = State(q=np.array(state.q, np.float64), v=np.array(state.v, np.float64))  # arrays of this tick's own
        check_size(self.robot, state)
        self._last = state, contacts, inputs
        fault = "emergency stop" if inputs.estop else self._safety.fault(state)
        if fault:
            return self._stopped(state, Mode.DAMPING if inputs.estop else Mode.FAULT, fault)
        reality = self._reality.measure(state, inputs)
        self._feedforward.measure(contacts, inputs.sensed_force)
        state = self._delay_compensation.ahead(state, inputs.delay)
        angles, speeds = self.robot.joint_angles(state.q), state.v[self.robot.tree.a]
        reference = self._grip.reference(self._advance_reference(state, contacts, inputs), contacts, angles)
        demand = self._feedback.acceleration(reference, angles, speeds, inputs.dt)
        grip = self._grip.torque(angles, speeds)
        want = Want(angles=reference.q, demand=demand, schedule=reference.schedule, grip=grip)
        forecast = self._feedforward.forecast(state, contacts, want)
        if forecast.tau is None:
            return self._without_answer(state, forecast.message)
        feedback = self._on_torque(state, forecast.contacts, reference, (angles, speeds), inputs.dt)
        if grip is not None:
            feedback = feedback + grip
        tau, limited_by = self._safety.limit(forecast.tau + feedback, inputs.dt, inputs.tau_applied)
        self._unsettled = state, forecast, tau if grip is None else tau - grip
        problem = forecast.message or reference.problem or (reality.problem if reality else "")
        return Command(
            tau=tau,
            tau_ff=forecast.tau,
            tau_fb=feedback,
            limited_by=limited_by,
            mode=Mode.DEGRADED if problem else Mode.OK,
            prediction=forecast.prediction,
            message=problem,
            reference=reference,
            missing=self._source.missing(forecast.contacts, reference.schedule),
            drive=self._drive,
            reality=reality,
        )

    def rehearse(self) -> None:
        """Do the last tick's work once more: right before the next one, code and data are in the caches then. By another
        controller of the same robot, which has a memory of its own and takes a millisecond to make, the first time."""
        self.settle()
        if self._last is None:
            return
        if self._understudy is None:
            self._understudy = Controller(self.settings, self.robot, self.stance)
        self._understudy.step(*self._last)

    def ways(self) -> list[Way]:
        """Pieces of work that compile nearly all that ticks may need, see `idyn.prediction.precompile`; all that was before is
        to be forgotten when they are done."""
        still = State(q=self.stance, v=np.zeros(self.robot.nv))
        contacts = self.contacts(self.stance, self.robot.contact_names)
        plan = partial(self._trajectory.at, 0.0, still, contacts)
        return [plan, *self._feedforward.ways(still, contacts), *self._reality.ways()]

    def _advance_reference(self, state: State, contacts: ContactSet, inputs: Inputs) -> Reference:
        """The reference for the time when this torque acts; that time never decreases."""
        self._time += inputs.dt
        self._shown = max(self._shown, self._time + inputs.delay)
        given = inputs.reference
        if given is None:
            return self._trajectory.at(self._shown, state, contacts)
        plan, feet = given.schedule, len(self.robot.spheres.keys)
        if plan is not None:
            if not len(plan.stance) == len(plan.time_to_switch) == feet:
                raise InputError("reference.schedule", f"expected one of {feet} contact places, got {len(plan.stance)}")
            plan = Schedule(stance=np.array(plan.stance, np.bool_), time_to_switch=np.array(plan.time_to_switch, np.float64))
        q, v, a = (np.array(rows, np.float64) for rows in (given.q, given.v, given.a))
        return msgspec.structs.replace(given, q=q, v=v, a=a, schedule=plan)

    def _on_torque(
        self, state: State, contacts: ContactSet, reference: Reference, joints: tuple[Array, Array], dt: float
    ) -> Array:
        """What errors of the joints and of the base add to the torque [N·m] (na). joints: their angles and speeds (na)."""
        tau = self._no_torque
        if self._torque_feedback.active:
            tau = self._grip.filled(self._grip.prescribed(self._torque_feedback.correction(reference, *joints, dt)))
        if self._stabilisation.active:
            tau = tau + self._stabilisation.torque(state, contacts, np.zeros(3) if reference.base is None else reference.base)
        return tau

    def _stopped(self, state: State, mode: Mode, message: str) -> Command:
        zero = np.zeros(self.robot.na)
        tau = self._safety.damping(state)
        self._safety.sent(tau)
        return Command(
            tau=tau, tau_ff=zero, tau_fb=zero, limited_by=zero.astype(np.int64), mode=mode,
            prediction=None, message=message,
        )  # fmt: skip

    def _without_answer(self, state: State, reason: str) -> Command:
        last = self._safety.last
        if self.settings.safety.fallback == "hold" and last is not None:
            command = self._stopped(state, Mode.HOLD, reason)
            self._safety.sent(last)
            return msgspec.structs.replace(command, tau=last)
        return self._stopped(state, Mode.DAMPING, reason)

    def snapshot(self) -> dict[str, Any]:
        """Everything needed to build this controller again elsewhere: settings, robot, stance."""
        return {
            "settings": msgspec.to_builtins(self.settings),
            **msgspec.to_builtins(self.robot.description),
            "stance": list(map(float, self.stance)),
        }
