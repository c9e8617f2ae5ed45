"""Feed-forward torque: the model's torque for a demand, one prediction per tick."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np

from controllers.command import Schedule
from controllers.contact.ground import AnyGround
from controllers.contact.source import ContactSource, reaching
from controllers.feedback import Spread
from controllers.grip import Grip, released
from controllers.planners.targets import complete
from controllers.settings import ControllerSettings, PidSettings
from idyn.errors import ConfigError, InputError
from idyn.laws import LawSettings, SensedSettings
from idyn.laws.law import Law
from idyn.laws.sensed import Sensed
from idyn.model.robot import Robot
from idyn.options import Options, Unadvised
from idyn.prediction.predict import predict, under_torques
from idyn.prediction.request import Request
from idyn.status import Status
from idyn.tasks import PostureTask, TaskOutcome, TaskStack, predict_tasks
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Record, Selection


class SensedForces:
    """Delay line of contact forces: returns the forces of `delay` measurements ago. Stores the measurements since then.

    The newest measurement is already one period old: ID(t−1) is delay 1, ID(t−2) delay 2.
    """

    def __init__(self, delay: int) -> None:
        self._measured: deque[dict[str, Array]] = deque(maxlen=delay)

    def reset(self) -> None:
        self._measured.clear()

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        """Record a measurement: force on the robot per contact, world frame [N] (n, 3); None: not measured."""
        self._measured.append({} if force is None else dict(zip(contacts.keys, force, strict=True)))

    def impulses(self, contacts: ContactSet, dt: float) -> Array:
        """Return the impulses of one period in S, T, N rows [N·s] (3n); zero for contacts that the delayed measurement does not
        contain."""
        p = np.zeros((len(contacts), 3))
        if len(self._measured) < (self._measured.maxlen or 0):
            return p.ravel()
        then = self._measured[0]
        for i, key in enumerate(contacts.keys):
            if key in then:
                s, n = contacts.tangents[i], contacts.normals[i]
                p[i] = dt * np.array([s @ then[key], np.cross(n, s) @ then[key], n @ then[key]])
        return p.ravel()


class Target(Record, frozen=True, kw_only=False):
    """Desired motion of a tick, the input of the feed-forward torque."""

    angles: Array  # reference joint angles [rad] (na)
    demand: Array  # demanded joint accelerations [rad/s²] (na)
    schedule: Schedule | None  # which feet are planned to stand
    grip: Array | None  # torque of the joints that grip with a known torque [N·m] (na); None: without such joints
    # tasks that replace the demand, with the posture of their last level; None: none
    tasks: tuple[TaskStack, PostureTask] | None = None
    applied: Array | None = None  # generalised force of known external forces [N, N·m] (nv); None: none
    # whether the demand may drag and lift contacts; it is then changed only where no contact force realises it
    drags: bool = False


class Forecast(Record, frozen=True):
    """Feed-forward torque of a tick."""

    tau: Array | None  # motor torque [N·m] (na); None without an answer, with the reason in `message`
    contacts: ContactSet  # contacts that took part
    prediction: Prediction | None = None  # prediction from which the torque was computed; None without a model
    message: str = ""  # why the torque is not the certified answer of the configured law within all limits; empty if it is
    outcomes: tuple[TaskOutcome, ...] = ()  # of the tasks


class FeedForward:
    """Base class, and feed-forward torque of the law `pid`: zero torque, without a model. It only selects the contacts."""

    senses = False  # whether measured contact forces are used, see `measure`
    realises_tasks = False  # whether `Target.tasks` has an effect
    foresees = False  # whether `under` has one

    def __init__(self, robot: Robot, source: ContactSource) -> None:
        self._source, self._no_torque = source, np.zeros(robot.na)
        self._no_torque.flags.writeable = False

    def reset(self) -> None:
        """Forget all earlier ticks."""

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        """Record the contact forces sensed since the last tick.

        force: on the robot, world frame, one row per contact [N] (n, 3); None: not sensed
        """

    def forecast(self, at: Kinematics, contacts: ContactSet, target: Target) -> Forecast:
        """Return the torque for `target` in the state `at`, given the candidate contacts of this tick."""
        return Forecast(tau=self._no_torque, contacts=self._source.pick(contacts, target.schedule))

    def under(self, at: Kinematics, forecast: Forecast, target: Target, tau: Array) -> Forecast:
        """Return the forecast of what the commanded torque `tau` [N·m] (na) causes, if it `foresees` that."""
        return forecast


MakeFeedForward = Callable[[Robot, ContactSource], FeedForward]  # makes one for a robot and the source of its contacts


BELOW = 2.0 / 3.0
"""Share of the joint speed at which the safety stops the robot that tasks may use."""


class Predictive(FeedForward):
    """Inverse dynamics with the contact forces that a contact law predicts. Stores the warm start and the sensed forces.

    The law `sensed` uses measured contact forces; all contacts are then passed to the prediction, whether planned or not.
    """

    def __init__(self, settings: ControllerSettings, law: LawSettings, robot: Robot, source: ContactSource, grip: Grip) -> None:
        super().__init__(robot, source)
        self._grip, self._robot = grip, robot
        self._model = released(robot, grip.pressing)
        choices = settings.selection, settings.consistency, settings.bounded, settings.warm_start
        self._law, self._options = _built(law), _options(*choices, settings.ground)
        self._dragging = Unadvised(**msgspec.structs.asdict(self._options) | {"consistency": Consistency.PROJECT})
        self._horizon, self._period = settings.ground.horizon or settings.period, settings.period
        self._speed = BELOW * settings.safety.max_joint_speed
        self._spread = Spread(settings.spread, robot, settings.selection)
        self._sensed = SensedForces(law.delay) if isinstance(law, SensedSettings) else None
        self.senses = self._sensed is not None
        self.realises_tasks = self._law.predicts and not grip.pressing
        self.foresees = self._law.takes_torques
        self.reset()

    def reset(self) -> None:
        self._guess: Guess | None = None
        self._completed: tuple[tuple[object, ...], TaskStack, str] | None = None  # the last stack for `predict_tasks`
        if self._sensed is not None:
            self._sensed.reset()

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        if self._sensed is not None:
            self._sensed.measure(contacts, force)

    def forecast(self, at: Kinematics, contacts: ContactSet, target: Target) -> Forecast:
        """Return the torque for `target`. Never raises on data: if no torque can be computed, `tau` is None and `message` gives
        the reason."""
        law, demand, grips = self._law, target.demand, bool(self._grip.pressing)
        options = self._dragging if target.drags else self._options
        source, ground = self._source, self._options.ground
        if self._sensed is not None:
            law = Sensed(self._sensed.impulses(contacts, self._period))
            ground = reaching(ground, contacts) if source.lands else ground
        else:
            contacts = source.pick(contacts, target.schedule)
            if source.lands:
                contacts, demand, ground = source.land(at, contacts, demand, ground)
        if ground is not options.ground:
            options = msgspec.structs.replace(options, ground=ground)
        if target.tasks is not None and self.realises_tasks:
            return self._of_tasks(at, contacts, target, options)
        applied = target.applied
        if grips:
            pressed = self._grip.applied(target.grip)
            applied = pressed if applied is None else applied + pressed
        try:
            prediction = predict(
                self._model,
                at,
                contacts,
                self._grip.prescribed(demand) if grips else demand,
                law=law,
                dt=self._horizon,
                options=options,
                guess=self._guess,
                applied=applied,
                preferred=self._spread.preferred(at, contacts, target.angles) if self._spread.active else None,
            )
        except InputError as error:  # non-finite demand, malformed contact
            return self._without_answer(contacts, str(error))
        status, tau = prediction.status, prediction.tau
        if status is not Status.SOLVED and not status.certified and not np.isfinite(tau).all():
            return self._without_answer(contacts, status.sentence)
        self._guess = prediction.guess
        as_asked = status is Status.SOLVED and prediction.torque_excess <= 0.0 >= prediction.force_excess
        message, tau = "" if as_asked else _degradation(prediction, law), self._grip.filled(tau) if grips else tau
        return Forecast(tau=tau, contacts=contacts, prediction=prediction, message=message)

    def under(self, at: Kinematics, forecast: Forecast, target: Target, tau: Array) -> Forecast:
        asked, same = forecast.prediction, forecast.tau is not None and np.array_equal(tau, forecast.tau)
        if asked is None or same or self._grip.pressing or target.tasks is not None or not np.isfinite(tau).all():
            return forecast
        options = self._dragging if target.drags else self._options
        contacts, dt = forecast.contacts, self._horizon
        request = Request(self._model, at, contacts, target.demand, self._law, dt, options, self._guess, target.applied, None)
        prediction = under_torques(request, tau)
        return forecast if prediction is None else msgspec.structs.replace(forecast, tau=tau, prediction=prediction)

    def _of_tasks(self, at: Kinematics, contacts: ContactSet, target: Target, options: Options) -> Forecast:
        """Return the torque that realises the tasks of the target."""
        assert target.tasks is not None
        (asked, posture), kept = target.tasks, self._completed
        given = [*asked.tasks, posture], dict(asked.modes), asked.limits, contacts.keys  # tasks are equal if they are the same
        if kept is None or given != kept[0]:
            self._completed = kept = given, *complete(asked, contacts, posture, self._speed)
        _, stack, absent = kept
        try:
            answer = predict_tasks(
                self._model,
                at,
                contacts,
                stack,
                law=self._law,
                dt=self._horizon,
                options=options,
                guess=self._guess,
                applied=target.applied,
            )
        except InputError as error:
            return self._without_answer(contacts, str(error))
        prediction, status = answer.prediction, answer.prediction.status
        if status is not Status.SOLVED and not status.certified and not np.isfinite(prediction.tau).all():
            return self._without_answer(contacts, status.sentence)
        self._guess = prediction.guess
        problems = [absent, _degradation(prediction, self._law), *(f"violated: {name}" for name in answer.relaxed)]
        message, tau, outcomes = "; ".join(filter(None, problems)), prediction.tau, answer.outcomes[: len(stack.tasks) - 1]
        return Forecast(tau=tau, contacts=contacts, prediction=prediction, message=message, outcomes=outcomes)

    def _without_answer(self, contacts: ContactSet, message: str) -> Forecast:
        self._guess = None
        return Forecast(tau=None, contacts=contacts, message=message)


def make_feedforward(settings: ControllerSettings, robot: Robot, source: ContactSource, grip: Grip) -> FeedForward:
    """Return the feed-forward part for the law in the settings. Raises ConfigError."""
    law = settings.law
    if isinstance(law, PidSettings):
        if not settings.torque_feedback.kp > 0:
            got = f"{settings.torque_feedback.kp:g}"
            raise ConfigError("torque_feedback.kp", f"expected > 0 for the law 'pid', its only source of torque, got {got}")
        return FeedForward(robot, source)
    return Predictive(settings, law, robot, source, grip)


@lru_cache(maxsize=64)
def _built(law: LawSettings) -> Law:
    """Return the law for these settings; equal settings give the same object, by which workspaces cache their methods."""
    return law.build()


@lru_cache(maxsize=64)
def _options(selection: Selection, consistency: Consistency, bounded: bool, warm_start: bool, ground: AnyGround) -> Options:
    return Options(selection=selection, consistency=consistency, bounded=bounded, warm_start=warm_start, ground=ground.build())


def _degradation(prediction: Prediction, law: Law) -> str:
    """Return why a prediction is not the certified answer of `law` within all limits; '' if it is."""
    if not prediction.status.ok:
        other = f"fallback: the law {prediction.law} answered instead of {law.name}"
        return other if prediction.status.certified else f"{prediction.rung}: {prediction.status.sentence}"
    if prediction.torque_excess > 0.0:
        return f"the demand exceeds the torque limits by {prediction.torque_excess:.3g} N·m"
    if prediction.force_excess > 0.0:
        return f"a contact force exceeds its limit by {prediction.force_excess:.3g} N"
    return ""
