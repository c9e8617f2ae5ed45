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
from idyn.prediction.method import workspace_for
from idyn.prediction.precompile import Way
from idyn.terms.dynamics import evaluate
from idyn.terms.inputs import check_size
from idyn.types import Array, ContactSet, Kinematics, State


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
        self._grip, self._grips = settings.grip.build(robot) if settings.grip else Grip(robot), settings.grip is not None
        self._feedforward = make_feedforward(settings, robot, self._source, self._grip)
        self._trajectory = settings.reference.build(robot, stance, period)
        self._delay_compensation = DelayCompensation(robot, period)
        self._reality = Reality(settings.reality, robot, period)
        self._feedback = JointFeedback(settings.feedback, robot)
        self._torque_feedback = JointFeedback(settings.torque_feedback, robot)
        self._stabilisation = Stabilisation(settings.stabilisation, robot, standing_height(robot, stance))
        self._safety = Safety(settings.safety, robot, robot.limits)
        self._no_torque = np.zeros(robot.na)
        self._kinematics = robot.terms(stance, np.zeros(robot.nv))
        self._no_torque.flags.writeable = False
        self._drive = drive_gains(settings.drive, robot, self._grip.joints)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next step is the first."""
        self._time = self._shown = 0.0  # since the first tick, and that of the last reference [s]
        self._unsettled: tuple[Kinematics, Forecast, Array] | None = None  # and the motors' torques, but for those that press
        self._placed: tuple[State, bytes, bytes] | None = None
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

    @property
    def limits(self) -> Limits:
        """The robot's own limits."""
        return self.robot.limits

    def contacts(self, at: Array | State, touching: Sequence[str] | None = None) -> ContactSet:
        """Contacts from geometry at a configuration (nq), or at a state, whose kinematics serve its answer too; or those of the
        places `touching`, in that order: their points and normals are those of geometry, their gaps 0 whatever it says."""
        q = self._placed_at(at) if isinstance(at, State) else at
        if touching is None:
            return contacts_from_geometry(self.robot, q, self.terrain, margin=self._source.reach, mu=self._mu)
        return contacts_of_places(self.robot, q, self.terrain, touching, mu=self._mu)

    def _placed_at(self, state: State) -> Kinematics:
        """The kinematics of a state, kept for its answer."""
        self._placed = state, state.q.tobytes(), state.v.tobytes()
        self._kinematics = self.robot.kinematics(state)
        return self._kinematics

    def _is_placed_at(self, state: State) -> bool:
        """Whether the kinematics are those of a state, which has not been written to since. They serve one answer."""
        placed, self._placed = self._placed, None
        same = placed is not None and state is placed[0]
        return same and state.q.tobytes() == placed[1] and state.v.tobytes() == placed[2]  # type: ignore[index]

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
        (at, forecast, told), self._unsettled = self._unsettled, None
        prediction, contacts = forecast.prediction, forecast.contacts
        if prediction is not None:
            self._delay_compensation.note(at.v, prediction.v_plus, prediction.dt)
            problem = workspace_for(self.robot, len(contacts.keys)).problem
            if self._grip.pressing:  # its prediction was for a model of another size
                ground, dt = self.settings.ground.build(), prediction.dt
                evaluate(self.robot, at, contacts, dt=dt, ground=ground, into=problem)
            self._reality.expect(prediction, told - forecast.tau, problem.dynamics)

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """The torques of a tick. `Command.mode` and `.message` say when they are not the law's own answer; never raises on
        numbers, whatever they are. Raises InputError for a state or a schedule that is not of the robot's size."""
        if self._unsettled is not None:
            self.settle()
        robot = self.robot
        try:
            at = robot.kinematics(self._kinematics if self._is_placed_at(state) else state)
            fault = self._safety.fault(at)
        except (TypeError, ValueError):  # not the arrays that Pinocchio and compiled code take
            at = robot.kinematics(_converted(state, robot))
            fault = self._safety.fault(at)
        if inputs.estop or fault:
            return self._stopped(at, Mode.DAMPING, "emergency stop") if inputs.estop else self._stopped(at, Mode.FAULT, fault)
        reality = self._reality.measure(at.v, inputs)
        if self._feedforward.senses:
            self._feedforward.measure(contacts, inputs.sensed_force)
        if inputs.delay:
            at = robot.kinematics(self._delay_compensation.ahead(at, inputs.delay))
        angles, speeds = at.q[robot.tree.q_index] if robot.one_axis_each else robot.joint_angles(at.q), at.v[robot.tree.a]
        # the reference for the time when this torque acts, which never decreases
        self._time += inputs.dt
        self._shown = max(self._shown, self._time + inputs.delay)
        if inputs.reference is None:
            reference = self._trajectory.at(self._shown, at, contacts)
        else:
            reference = self._checked(inputs.reference)
        if self._grips:
            reference = self._grip.reference(reference, contacts, angles)
        demand = self._feedback.added(reference.a, reference, (angles, speeds), inputs.dt)
        grip = self._grip.torque(angles, speeds) if self._grips else None
        want = Want(angles=reference.q, demand=demand, schedule=reference.schedule, grip=grip)
        forecast = self._feedforward.forecast(at, contacts, want)
        if forecast.tau is None:
            return self._without_answer(at, forecast.message)
        feedback = self._no_torque
        if self._torque_feedback.active:
            feedback = self._torque_feedback.added(feedback, reference, (angles, speeds), inputs.dt)
            feedback = self._grip.filled(self._grip.prescribed(feedback)) if self._grips else feedback
        if self._stabilisation.active:
            velocity = np.zeros(3) if reference.base is None else reference.base
            feedback = feedback + self._stabilisation.torque(at, forecast.contacts, velocity)
        if grip is not None:
            feedback = feedback + grip
        tau, limited_by = self._safety.limit(forecast.tau + feedback, inputs.dt, inputs.tau_applied)
        self._unsettled = at, forecast, tau if grip is None else tau - grip
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
            missing=self._source.missing(forecast.contacts, reference.schedule) if reference.schedule is not None else (),
            drive=self._drive,
            reality=reality,
        )

    def ways(self) -> list[Way]:
        """Pieces of work that compile nearly all that ticks may need, see `idyn.prediction.precompile`; all that was before is
        to be forgotten when they are done."""
        still = State(q=self.stance, v=np.zeros(self.robot.nv))
        contacts = self.contacts(self.stance, self.robot.contact_names)
        plan = partial(self._trajectory.at, 0.0, still, contacts)
        return [plan, *self._feedforward.ways(still, contacts), *self._reality.ways()]

    def _checked(self, given: Reference) -> Reference:
        """A reference that came with the state, in arrays of its own."""
        plan, feet = given.schedule, len(self.robot.spheres.keys)
        if plan is not None:
            if not len(plan.stance) == len(plan.time_to_switch) == feet:
                raise InputError("reference.schedule", f"expected one of {feet} contact places, got {len(plan.stance)}")
            plan = Schedule(stance=np.array(plan.stance, np.bool_), time_to_switch=np.array(plan.time_to_switch, np.float64))
        q, v, a = (np.array(rows, np.float64) for rows in (given.q, given.v, given.a))
        return msgspec.structs.replace(given, q=q, v=v, a=a, schedule=plan)

    def _stopped(self, at: Kinematics, mode: Mode, message: str) -> Command:
        zero = np.zeros(self.robot.na)
        tau = self._safety.damping(at)
        self._safety.sent(tau)
        return Command(
            tau=tau, tau_ff=zero, tau_fb=zero, limited_by=zero.astype(np.int64), mode=mode,
            prediction=None, message=message,
        )  # fmt: skip

    def _without_answer(self, at: Kinematics, reason: str) -> Command:
        last = self._safety.last
        if self.settings.safety.fallback == "hold" and last is not None:
            command = self._stopped(at, Mode.HOLD, reason)
            self._safety.sent(last)
            return msgspec.structs.replace(command, tau=last)
        return self._stopped(at, Mode.DAMPING, reason)

    def snapshot(self) -> dict[str, Any]:
        """Everything needed to build this controller again elsewhere: settings, robot, stance."""
        return {
            "settings": msgspec.to_builtins(self.settings),
            **msgspec.to_builtins(self.robot.description),
            "stance": list(map(float, self.stance)),
        }


def _converted(state: State, robot: Robot) -> State:
    """A state of numbers in whatever arrays. Raises InputError for one that is not of the robot's size."""
    state = State(q=np.array(state.q, np.float64), v=np.array(state.v, np.float64))
    check_size(robot, state)
    return state
