"""Controller: computes a torque command from state and contacts, once per tick."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode, Reference, Schedule, Steering
from controllers.contact.source import with_whole_soles
from controllers.estimation.estimator import Estimator
from controllers.feedback import MAX_TICKS, DelayCompensation, JointFeedback, Stabilisation, standing_height
from controllers.feedforward import Forecast, MakeFeedForward, Target, make_feedforward
from controllers.grip import Grip
from controllers.monitor.alarms import Alarms
from controllers.monitor.reality import MismatchMonitor
from controllers.monitor.safety import WITHOUT, Safety
from controllers.monitor.switches import Switches
from controllers.planners.targets import LAST_LEVEL
from controllers.planners.two_legs.beside import beside, legs_of
from controllers.robot.damping import carried_late, drive_gains
from controllers.robot.kinematics import closing
from controllers.settings import ControllerSettings
from idyn.contact.contacts import contacts_from_geometry, touching_ones
from idyn.errors import ConfigError, InputError
from idyn.model.robot import Robot
from idyn.prediction.solve import workspace_for
from idyn.tasks import PostureTask, TaskStack
from idyn.terms.dynamics import NOTHING, evaluate
from idyn.terms.inputs import check_size
from idyn.types import Array, ContactSet, Kinematics, State


class Placed:
    """Caches the kinematics of one state, until `take`."""

    def __init__(self, robot: Robot, find: Callable[[Kinematics], ContactSet], q: Array, v: Array) -> None:
        """find: finds all contacts in geometry, whatever their gaps; q (nq), v (nv): any state"""
        self._robot, self._find = robot, find
        self._kinematics = robot.terms(q, v)
        self.reset()

    def reset(self) -> None:
        self._state: tuple[State, bytes, bytes] | None = None
        self._contacts: ContactSet | None = None

    def at(self, state: State) -> Kinematics:
        """Return the kinematics of a state, computed unless they are cached."""
        own = self._state
        if self.take(state) is state:
            own, self._contacts = (state, state.q.tobytes(), state.v.tobytes()), None
            self._kinematics = self._robot.kinematics(state)
        self._state = own
        return self._kinematics

    def contacts(self, state: State) -> ContactSet:
        """Return all contacts in a state, whatever their gaps, and cache them."""
        at = self.at(state)
        if self._contacts is None:
            self._contacts = self._find(at)
        return self._contacts

    def take(self, state: State) -> Kinematics | State:
        """Return the kinematics of a state if they are cached and it was not modified since, else the state. Forgets the cached
        one."""
        own, self._state = self._state, None
        same = own is not None and state is own[0] and state.q.tobytes() == own[1] and state.v.tobytes() == own[2]
        return self._kinematics if same else state


def given_reference(given: Reference, robot: Robot) -> Reference:
    """Copy a reference. Raises InputError for a schedule of wrong size."""
    plan, feet = given.schedule, len(robot.spheres.keys)
    if plan is not None:
        if not len(plan.stance) == len(plan.time_to_switch) == feet:
            got = f"{len(plan.stance)} and {len(plan.time_to_switch)}"
            raise InputError("reference.schedule", f"expected {feet} entries each, one per contact, got {got}")
        plan = Schedule(stance=np.array(plan.stance, np.bool_), time_to_switch=np.array(plan.time_to_switch, np.float64))
    q, v, a = (np.array(rows, np.float64) for rows in (given.q, given.v, given.a))
    return msgspec.structs.replace(given, q=q, v=v, a=a, schedule=plan)


def given_state(state: State, robot: Robot) -> State:
    """Convert the entries of a state to float arrays. Raises InputError for wrong sizes."""
    state = State(q=np.array(state.q, np.float64), v=np.array(state.v, np.float64))
    check_size(robot, state)
    return state


AT_REST = 0.2  # time with all feet on the ground by the plan after which a robot rests; the feet of gaits lift earlier [s]


class Controller:
    """Computes each tick: joint feedback → demand → `idyn.predict` → limits. Its parts store most state between ticks."""

    def __init__(
        self, settings: ControllerSettings, robot: Robot, stance: Array, feedforward: MakeFeedForward | None = None
    ) -> None:
        """stance: configuration in which trajectories start (nq); feedforward: makes the part that replaces that of the law

        Raises ConfigError for inconsistent settings.
        """
        if not 0 < settings.period < np.inf:
            raise ConfigError("period", f"expected a finite number > 0, got {settings.period}")
        self.settings, self.robot, self.stance = settings, robot, stance
        contact, period = settings.contact, settings.period
        self.terrain = contact.terrain.build(contact.ground)
        mu = None if contact.mu is None else np.full(len(robot.contact_names), contact.mu)
        self._source = contact.source.build(robot, contact.margin, settings.ground.build(), period)
        self._grip, self._grips = settings.grip.build(robot) if settings.grip else Grip(robot), settings.grip is not None
        law = partial(make_feedforward, settings, grip=self._grip)
        self._feedforward = (feedforward or law)(robot, self._source)
        self._trajectory = settings.reference.build(robot, stance, period)
        self._trajectory.on(self.terrain, contact.terrain.known)
        self._trajectory.prepare()
        self._delay_compensation = DelayCompensation(robot, period)
        self._safety = Safety(settings.safety, robot, robot.limits, stance, period)
        self._monitor = MismatchMonitor(settings.reality, robot, period)
        self._alarms = Alarms(settings.alarms, robot, period, stance, self._safety, self._monitor)
        self._switches = Switches(settings.alarms, robot)
        self._feedback, gains = JointFeedback(settings.feedback, robot), settings.feedback
        self._aimed = angles, velocity, acceleration = np.zeros((3, robot.na))
        fields: dict[str, Any] = {"angles": angles, "velocity": velocity, "acceleration": acceleration, "level": LAST_LEVEL}
        self._below = PostureTask(name="reference", stiffness=gains.kp, damping=gains.kd, **fields)
        carried = carried_late((settings.torque_feedback.kd, gains.kd), robot, stance, period, MAX_TICKS)
        carried[:, [name in self._grip.pressing for name in robot.joint_names]] = 0.0  # `_grip` moves these joints
        self._torque_feedback = JointFeedback(settings.torque_feedback, robot, carried)
        self._stabilisation = Stabilisation(settings.stabilisation, robot, standing_height(robot, stance))
        self._find = partial(contacts_from_geometry, robot, terrain=self.terrain, margin=np.inf, mu=mu)
        self._placed = Placed(robot, self._find, stance, np.zeros(robot.nv))
        self._legs = legs_of(robot, stance)  # other joints may have tasks beside those of a gait
        self._told: tuple[tuple[str, ...], tuple[str, ...]] = (), ()  # the last places that touch, as told and with whole soles
        self._adjusts = bool(robot.closures.keys) or settings.speed_memory > 0.0
        self._drive = drive_gains(settings.drive, robot, stance, self._grip.joints)
        self.estimator()  # it raises for a robot that it cannot estimate
        self.reset()

    def reset(self) -> None:
        """Forget all earlier ticks; the next step counts as the first."""
        self._time = self._reference_time = 0.0  # of this tick and of the last reference, since the first tick [s]
        # the last tick: with the commanded torque minus that of `_grip`, and the commanded tasks
        self._unsettled: tuple[Kinematics, Forecast, Array, TaskStack | None] | None = None
        self._placed.reset()
        self._wanted: Array | None = None  # angles of the last reference
        self._at_rest = 0.0  # time for which the plan has had all feet on the ground [s]
        self._lies, self._unanswered = False, 0.0  # the last reference `drags`; ticks without a torque, see `SafetySettings`
        watching = self._delay_compensation, self._monitor, self._alarms, self._switches, self._safety
        for part in (self._source, self._feedforward, self._trajectory, *watching, self._feedback, self._torque_feedback):
            part.reset()

    @property
    def realises_tasks(self) -> bool:
        """Whether `Inputs.tasks` has an effect: a law that predicts contact forces, and no joints that press."""
        return self._feedforward.realises_tasks

    def estimator(self) -> Estimator | None:
        """Return a new estimator of the base; None without the table `[estimator]`."""
        return None if self.settings.estimator is None else Estimator(self.settings.estimator, self.robot)

    def check_steering(self, steering: Steering, tasks: TaskStack | None = None) -> None:
        """Raise InputError if the reference cannot follow this steering, or tasks beside it, with the field of a command."""
        self._trajectory.check(steering, tasks)

    def contacts(self, at: Array | State, touching: Sequence[str] | None = None) -> ContactSet:
        """Return the contacts from geometry at a configuration (nq) or a state.

        at: for a state, its kinematics are cached; `answer` uses them for the same state object
        touching: names of contact spheres. Exactly these become contacts, in this order; points and normals come from geometry,
            gaps are 0. None: all spheres within reach
        Raises InputError for an unknown name. The contacts of a state are kept with its kinematics: do not modify them.
        """
        found = self._placed.contacts(at) if isinstance(at, State) else self._find(at)
        return found.within(self._source.reach) if touching is None else self._touching(found, tuple(touching))

    def _touching(self, found: ContactSet, keys: tuple[str, ...]) -> ContactSet:
        """Return the contacts that touch when those with these keys do. found: all"""
        if keys != self._told[0]:  # switches seldom change
            self._told = keys, with_whole_soles(self.robot, keys) if self.settings.contact.whole_soles else keys
        return touching_ones(found, self._told[1])

    def believed(
        self, state: State, closed: tuple[str, ...], inputs: Inputs, forces: dict[str, float]
    ) -> tuple[ContactSet, str]:
        """Return the contacts, as `contacts`, of the spheres whose foot switches count as closed, and which switches contradict
        forces and kinematics, '' without any.

        closed: spheres with a closed switch; forces: sphere → sensed force [N]
        After a torque that did not reach the motors the joints tell nothing about held feet.
        """
        robot, wanted, found = self.robot, self._wanted, self._placed.contacts(state)
        off = np.zeros(robot.na) if wanted is None else robot.joint_error(wanted, robot.joint_angles(state.q))
        since = inputs.dt, bool(inputs.follows) and wanted is not None, self._at_rest >= AT_REST
        keys, problem = self._switches.judge(found, closed, off, since, forces, inputs.lifted)
        return self._touching(found, keys), problem

    def step(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """One tick: `answer`, then `settle`."""
        command = self.answer(state, contacts, inputs)
        self.settle()
        return command

    def settle(self) -> None:
        """Finish the last tick after its command was sent: record its prediction for delay compensation and model-mismatch
        monitor.

        Between `answer` and `settle`, do not use the robot and do not modify the inputs or the command.
        """
        if self._unsettled is None:
            return
        (at, forecast, commanded, asked), self._unsettled = self._unsettled, None
        prediction, contacts = forecast.prediction, forecast.contacts
        if prediction is not None and forecast.tau is not None:
            self._trajectory.expect(contacts, prediction.force, asked)
            self._delay_compensation.record(at.v, prediction.v_plus, prediction.dt)
            problem = workspace_for(self.robot, len(contacts.keys)).problem
            if self._grip.pressing:  # the prediction used a model with fewer actuated joints
                ground, dt = self.settings.ground.build(), prediction.dt
                evaluate(self.robot, at, contacts, dt=dt, ground=ground, into=problem)
            self._monitor.expect(prediction, (commanded, forecast.tau), problem.dynamics)

    def answer(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """Compute the command of a tick. Raises InputError for arrays of wrong size, but never for values."""
        robot = self.robot
        self.settle()
        try:
            at = robot.kinematics(self._placed.take(state))
            alarm = self._alarms.judge(at, inputs, self._wanted, lies=self._lies)
        except (TypeError, ValueError):  # arrays of a type that Pinocchio or compiled code does not accept
            at = robot.kinematics(given_state(state, robot))
            alarm = self._alarms.judge(at, inputs, self._wanted, lies=self._lies)
        if inputs.estop:
            return self._stopped(at, Mode.DAMPING, inputs.estop)
        if alarm is not None and alarm.stops:
            return self._stopped(at, Mode.FAULT, alarm.message)
        mismatch, (angles, speeds) = self._alarms.mismatch, self._alarms.joints
        if self._feedforward.senses:
            self._feedforward.measure(contacts, inputs.sensed_force)
        if self._adjusts or inputs.delay:
            at, angles, speeds = self._acting(at, angles, inputs)
        reference = self._referred(at, contacts, inputs, angles)
        # q̈_des = q̈_ref + Kp (q_ref ⊖ q) + Kd (q̇_ref − q̇) + Ki ∫ (q_ref ⊖ q) dt   [MATHEMATICS §8]
        motion = self._feedback.motion(reference, (angles, speeds))
        demand = self._feedback.add_to(reference.a, motion, inputs.dt)
        grip = self._grip.torque(angles, speeds) if self._grips else None
        asked = reference.tasks if inputs.tasks is None else inputs.tasks
        tasks = self._tasks(at, reference, asked) if asked is not None and self.realises_tasks else None
        target = Target(reference.q, demand, reference.schedule, grip, tasks, applied=inputs.applied, drags=reference.drags)
        forecast = self._feedforward.forecast(at, contacts, target)
        if forecast.tau is None:
            return self._without_answer(at, forecast.message)
        self._unanswered = max(self._unanswered - 0.02, 0.0)
        # τ = limits(τ_ff + PID on torque + virtual forces at the feet + grip)
        pid, more, feedback = self._torque_feedback, NOTHING, np.empty(robot.na)
        if self._stabilisation.active and tasks is None:
            more = self._stabilisation.torque(at, forecast.contacts, reference.base, reference.pose)
        if grip is not None:  # it replaces the feedback of the joints that press
            more = grip + (self._grip.filled(self._grip.prescribed(more)) if len(more) else 0.0)
        late = min(round(inputs.delay / self.settings.period), MAX_TICKS) if inputs.delay else 0
        pulls = pid.active and tasks is None  # it would pull towards the reference of the joints
        beside = (pid.pid, motion, late, more) if pulls else (*WITHOUT[:3], more)
        tau, limited_by = self._safety.limit(forecast.tau, inputs.dt, inputs.tau_applied, beside, feedback)
        foreseen = self._feedforward.under(at, forecast, target, tau) if self._feedforward.foresees else forecast
        self._unsettled = at, foreseen, tau if grip is None else tau - grip, inputs.tasks
        problem = forecast.message or reference.problem or inputs.doubt
        problem = problem or (alarm.message if alarm else "") or (mismatch.problem if mismatch else "")
        return Command(
            tau=tau,
            tau_ff=forecast.tau,
            tau_fb=feedback,
            limited_by=limited_by,
            mode=Mode.DEGRADED if problem else Mode.OK,
            prediction=foreseen.prediction,
            message=problem,
            reference=reference,
            missing=self._source.missing(forecast.contacts, reference.schedule) if reference.schedule is not None else (),
            drive=self._drive,
            reality=mismatch,
            outcomes=forecast.outcomes,
        )

    def _acting(self, at: Kinematics, angles: Array, inputs: Inputs) -> tuple[Kinematics, Array, Array]:
        """Return the kinematics and the joints' angles and speeds at the time when the torque acts. angles: measured (na)"""
        robot, memory = self.robot, self.settings.speed_memory
        if memory > 0.0 and 0.0 < inputs.dt < 1.5 * self.settings.period:  # predictions are of the tick before
            share = inputs.dt / (memory + inputs.dt)
            at = robot.kinematics(State(q=at.q, v=self._delay_compensation.corrected(at.v, inputs.delay, share)))
        if inputs.delay:
            at = robot.kinematics(self._delay_compensation.extrapolate(at, inputs.delay))
            angles = robot.joint_angles(at.q)
        if robot.closures.keys:  # measured speeds that open a chain would ask for the force that stops them within a period
            at = robot.kinematics(State(q=at.q, v=closing(robot, at.q, at.v)))
        return at, angles, at.v[robot.tree.a]

    def _tasks(self, at: Kinematics, reference: Reference, asked: TaskStack) -> tuple[TaskStack, PostureTask]:
        """Return the tasks of a tick, commanded ones beside those of the reference, and the posture below them."""
        posture, own = self._posture(reference), reference.tasks
        return asked if own is None or own is asked else beside(self.robot, self._legs, at, own, asked, posture), posture

    def _referred(self, at: Kinematics, contacts: ContactSet, inputs: Inputs, angles: Array) -> Reference:
        """Return the reference of a tick: that of the time when its torque acts, which never decreases."""
        self._time += inputs.dt
        self._reference_time = max(self._reference_time, self._time + inputs.delay)
        if inputs.steering is not None:
            self._trajectory.steer(inputs.steering)
        given = inputs.reference
        reference = (
            self._trajectory.at(self._reference_time, at, contacts) if given is None else given_reference(given, self.robot)
        )
        if inputs.schedule is not None:
            reference = msgspec.structs.replace(reference, schedule=inputs.schedule)
        if self._grips:
            reference = self._grip.reference(reference, contacts, angles)
        # with commanded tasks the joints do not follow their reference: alarms compare them with themselves
        self._lies = reference.drags
        self._wanted = reference.q if inputs.tasks is None or not self.realises_tasks else angles.copy()
        stands = reference.schedule is not None and b"\0" not in reference.schedule.stance.tobytes()
        self._at_rest = self._at_rest + inputs.dt if stands else 0.0
        return reference

    def _posture(self, reference: Reference) -> PostureTask:
        """Return the reference as a task below all commanded ones, always the same one."""
        for own, target in zip(self._aimed, (reference.q, reference.v, reference.a), strict=True):
            own[:] = target
        return self._below

    def _stopped(self, at: Kinematics, mode: Mode, message: str) -> Command:
        zero = np.zeros(self.robot.na)
        tau = self._safety.damping(at)
        self._safety.send(tau)
        return Command(
            tau=tau, tau_ff=zero, tau_fb=zero, limited_by=zero.astype(np.int64), mode=mode,
            prediction=None, message=message,
        )  # fmt: skip

    def _without_answer(self, at: Kinematics, reason: str) -> Command:
        last, most = self._safety.last, self.settings.safety.unanswered
        self._unanswered += 1.0
        if self._unanswered > most:
            return self._stopped(at, Mode.FAULT, f"no torque in more than {most} ticks: {reason}")
        if self.settings.safety.fallback == "hold" and last is not None:
            command = self._stopped(at, Mode.HOLD, reason)
            self._safety.send(last)
            return msgspec.structs.replace(command, tau=last)
        return self._stopped(at, Mode.DAMPING, reason)

    def snapshot(self) -> dict[str, Any]:
        """Return what `controller_from_snapshot` needs to rebuild this controller: settings, robot description, stance."""
        return {
            "settings": msgspec.to_builtins(self.settings),
            **msgspec.to_builtins(self.robot.description),
            "stance": list(map(float, self.stance)),
        }
