"""The model's part of the torque: a demand in, a prediction out, once per tick, as each kind of law goes about it."""

from functools import lru_cache

import msgspec
import numpy as np

from controllers.command import Schedule
from controllers.contact.ground import AnyGround
from controllers.contact.sensed_forces import SensedForces
from controllers.contact.source import ContactSource, reaching
from controllers.feedback.grip import Grip, released
from controllers.feedback.spread import Spread
from controllers.settings import ControllerSettings, PidSettings
from idyn.errors import ConfigError, InputError
from idyn.laws.law import Law
from idyn.laws.sensed import Sensed
from idyn.laws.settings import LawSettings, SensedSettings
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.precompile import Way, all_ways
from idyn.prediction.predict import predict
from idyn.status import Status
from idyn.types import Array, Consistency, ContactSet, Guess, Kinematics, Prediction, Record, Selection, State


class Want(Record, frozen=True):
    """What a tick asks of the model.

    angles: where the joints are to be [rad] (na); demand: their acceleration [rad/s²] (na); schedule: which feet are to stand
    grip: torque of the joints that grip [N·m] (na), None: none presses
    """

    angles: Array
    demand: Array
    schedule: Schedule | None
    grip: Array | None


class Forecast(Record, frozen=True):
    """What the model says to it.

    tau: torque of the motors [N·m] (na); None: there is none, and `message` says why
    contacts: those that took part; prediction: behind the torque, None without a model
    message: why the torque is not the law's own answer within all limits, '' when it is
    """

    tau: Array | None
    contacts: ContactSet
    prediction: Prediction | None = None
    message: str = ""


class FeedForward:
    """Base, and what the law `pid` has: no model, zero torque; contacts are only picked.

    senses: whether it takes measured forces, see `measure`
    """

    senses = False

    def __init__(self, robot: Robot, source: ContactSource) -> None:
        self._source, self._no_torque = source, np.zeros(robot.na)
        self._no_torque.flags.writeable = False

    def reset(self) -> None:
        """Forget all ticks before."""

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        """Note what was sensed since the last tick: the force on the robot, in the world, of each contact [N] (n, 3)."""

    def forecast(self, at: Kinematics, contacts: ContactSet, want: Want) -> Forecast:
        """The torque for what is wanted in a state, with these contacts at hand."""
        return Forecast(tau=self._no_torque, contacts=self._source.pick(contacts, want.schedule))

    def ways(self, state: State, contacts: ContactSet) -> list[Way]:
        """Pieces of work that compile all that forecasts may need, see `idyn.prediction.precompile`."""
        return []


class Predictive(FeedForward):
    """Inverse dynamics with the contact forces that a law predicts. Owns what one tick leaves to the next.

    Under the law `sensed` the contact forces are those that were measured; then all contacts take part, planned or not.
    """

    def __init__(self, settings: ControllerSettings, law: LawSettings, robot: Robot, source: ContactSource, grip: Grip) -> None:
        super().__init__(robot, source)
        self._grip, self._robot = grip, robot
        self._model = released(robot, grip.pressing)
        choices = settings.selection, settings.consistency, settings.bounded, settings.warm_start
        self._law, self._options = _built(law), _options(*choices, settings.ground)
        self._horizon, self._period = settings.ground.horizon or settings.period, settings.period
        self._spread = Spread(settings.spread, robot, settings.selection)
        self._sensed = SensedForces(law.delay) if isinstance(law, SensedSettings) else None
        self.senses = self._sensed is not None
        self.reset()

    def reset(self) -> None:
        self._guess: Guess | None = None
        if self._sensed is not None:
            self._sensed.reset()

    def measure(self, contacts: ContactSet, force: Array | None) -> None:
        if self._sensed is not None:
            self._sensed.measure(contacts, force)

    def forecast(self, at: Kinematics, contacts: ContactSet, want: Want) -> Forecast:
        """Never raises on data: without an answer `message` says why."""
        law, demand, options, grips = self._law, want.demand, self._options, bool(self._grip.pressing)
        source, ground = self._source, self._options.ground
        if self._sensed is not None:
            law = Sensed(self._sensed.impulses(contacts, self._period))
            ground = reaching(ground, contacts) if source.lands else ground
        else:
            contacts = source.pick(contacts, want.schedule)
            if source.lands:
                contacts, demand, ground = source.land(at, contacts, demand, ground)
        if ground is not options.ground:
            options = msgspec.structs.replace(options, ground=ground)
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
                applied=self._grip.applied(want.grip) if grips else None,
                preferred=self._spread.preferred(at, contacts, want.angles) if self._spread.active else None,
            )
        except InputError as error:  # a demand that is not finite, a malformed contact
            return self._without_answer(contacts, str(error))
        status, tau = prediction.status, prediction.tau
        if status is not Status.SOLVED and not status.certified and not np.isfinite(tau).all():
            return self._without_answer(contacts, status.sentence)
        self._guess = prediction.guess
        as_asked = status is Status.SOLVED and prediction.torque_excess <= 0.0 >= prediction.force_excess
        return Forecast(
            tau=self._grip.filled(tau) if grips else tau,
            contacts=contacts,
            prediction=prediction,
            message="" if as_asked else _doubt(prediction, law),
        )

    def _without_answer(self, contacts: ContactSet, message: str) -> Forecast:
        self._guess = None
        return Forecast(tau=None, contacts=contacts, message=message)

    def ways(self, state: State, contacts: ContactSet) -> list[Way]:
        return all_ways(self._model, self._law, self._options, state, contacts)


def make_feedforward(settings: ControllerSettings, robot: Robot, source: ContactSource, grip: Grip) -> FeedForward:
    """The way of the kind of law that the settings name. Raises ConfigError."""
    law = settings.law
    if isinstance(law, PidSettings):
        if not settings.torque_feedback.kp > 0:
            got = f"{settings.torque_feedback.kp:g}"
            raise ConfigError("torque_feedback.kp", f"expected > 0 for the law 'pid', which has nothing else, got {got}")
        return FeedForward(robot, source)
    return Predictive(settings, law, robot, source, grip)


@lru_cache(maxsize=64)
def _built(law: LawSettings) -> Law:
    """The same law for the same settings: what a robot keeps from tick to tick is found again by it and by its options."""
    return law.build()


@lru_cache(maxsize=64)
def _options(selection: Selection, consistency: Consistency, bounded: bool, warm_start: bool, ground: AnyGround) -> Options:
    return Options(selection=selection, consistency=consistency, bounded=bounded, warm_start=warm_start, ground=ground.build())


def _doubt(prediction: Prediction, law: Law) -> str:
    """Why the torque is not the law's own certified answer within all limits, '' when it is."""
    if not prediction.status.ok:
        other = f"the {prediction.law} law answered for {law.name}"
        return other if prediction.status.certified else f"{prediction.rung}: {prediction.status.sentence}"
    if prediction.torque_excess > 0.0:
        return f"the demand needs {prediction.torque_excess:.3g} N·m more than the torque limits give"
    if prediction.force_excess > 0.0:
        return f"a contact is to carry {prediction.force_excess:.3g} N more than the force limit"
    return ""
