"""A controller: state and contacts in, a torque command out, once per tick."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from controllers.command import Command, Inputs, Mode, Reference
from controllers.config import Settings
from controllers.contact_source import ContactSettings, ContactSource, touched
from controllers.drive import DriveSettings, drive_gains
from controllers.feedback import FeedbackSettings, JointFeedback
from controllers.foresight import Foresight
from controllers.grip import Grip, GripSettings, released
from controllers.ground import GroundSettings, make_ground
from controllers.landing import Landing
from controllers.reality import Reality, RealitySettings
from controllers.safety import Safety, SafetySettings
from controllers.sensing import SensedForces
from controllers.spread import Spread, SpreadSettings
from controllers.stabilisation import Stabilisation, StabilisationSettings, standing_height
from controllers.terrain import make_terrain
from controllers.trajectory import TrajectorySettings, make_trajectory
from idyn.contacts import contacts_from_geometry
from idyn.dynamics import kept
from idyn.errors import ConfigError, InputError
from idyn.inverse_dynamics import predict
from idyn.laws import make_law
from idyn.laws.law import Law
from idyn.laws.sensed import Sensed
from idyn.problem import Options
from idyn.robot import Robot
from idyn.solvers.qp import check_backend
from idyn.tree import Limits
from idyn.types import Array, Consistency, ContactSet, Guess, Prediction, Selection, State

PID = "pid"
"""In the place of a law: joint feedback on torque, without any model  [ZD §7.3]."""


class ControllerSettings(Settings, frozen=True):
    """A controller: `configs/controllers/*.toml`.

    robot: name or path of its configuration
    law: a row of `idyn.laws.LAWS`, or 'pid'; edges: of the friction polygon; qp_backend: of the convex laws
    selection, consistency: see `idyn.types`; bounded: see `idyn.ladder.Options`
    warm_start: begin each tick at the basis of the last; without it every tick stands alone, as in the paper
    sensing_delay: how many measurements the forces of the law 'sensed' are old, ≥ 1
    period: nominal control period [s]
    ground: what the ground is taken for
    feedback: gains on acceleration
    torque_feedback: gains on torque, which comes on top of every law's and is all there is for 'pid'; none by default
    """

    robot: str
    law: str = "coulomb"
    selection: Selection = Selection.FORCE
    consistency: Consistency = Consistency.HOLD
    bounded: bool = True
    warm_start: bool = True
    edges: int = 4
    qp_backend: str = "daqp"
    sensing_delay: int = 1
    period: float = 0.001
    contact: ContactSettings = ContactSettings()
    ground: GroundSettings = GroundSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    torque_feedback: FeedbackSettings = FeedbackSettings(kp=0.0, kd=0.0)
    reference: TrajectorySettings = TrajectorySettings()
    stabilisation: StabilisationSettings = StabilisationSettings()
    spread: SpreadSettings = SpreadSettings()
    grip: GripSettings = GripSettings()
    drive: DriveSettings = DriveSettings()
    safety: SafetySettings = SafetySettings()
    reality: RealitySettings = RealitySettings()


class Controller:
    """Joint feedback → demand → `idyn.predict` → safety. Owns all memory between ticks."""

    def __init__(self, settings: ControllerSettings, robot: Robot, stance: Array) -> None:
        """`stance`: the configuration that trajectories start from (nq). Raises ConfigError for unknown names and values."""
        if not 0 < settings.period < np.inf:
            raise ConfigError("period", f"expected a finite number > 0, got {settings.period}")
        if settings.law == PID and not settings.torque_feedback.kp > 0:
            raise ConfigError("torque_feedback.kp", f"expected > 0 for the law '{PID}', got {settings.torque_feedback.kp:g}")
        if settings.sensing_delay < 1:
            raise ConfigError("sensing_delay", f"expected ≥ 1, got {settings.sensing_delay}")
        check_backend(settings.qp_backend)
        self.settings = settings
        self.robot = robot
        self.stance = stance
        self.law = None if settings.law == PID else make_law(settings.law, settings.edges, settings.qp_backend)
        contact = settings.contact
        self._options = Options(
            selection=settings.selection,
            consistency=settings.consistency,
            bounded=settings.bounded,
            warm_start=settings.warm_start,
            ground=make_ground(settings.ground),
        )
        self._horizon = settings.ground.horizon or settings.period
        self.terrain = make_terrain(contact.terrain, contact.ground)
        self._source = ContactSource(contact, robot.spheres.keys)
        self._landing = Landing(robot, self._options.ground, settings.period)
        self._mu = None if contact.mu is None else np.full(len(robot.contact_names), contact.mu)
        self._trajectory = make_trajectory(settings.reference, robot, stance, settings.period)
        self._foresight = Foresight(robot, settings.period)
        self._reality = Reality(settings.reality, robot, settings.period)
        self._grip = Grip(settings.grip, robot)
        self._model = released(robot, self._grip.pressing)
        self._feedback = JointFeedback(settings.feedback, robot.na)
        self._torque_feedback = JointFeedback(settings.torque_feedback, robot.na)
        self._sensed = SensedForces(settings.sensing_delay)
        self._stabilisation = Stabilisation(settings.stabilisation, robot, standing_height(robot, stance))
        self._spread = Spread(settings.spread, robot, settings.selection)
        self._safety = Safety(settings.safety, robot, robot.limits)
        self._drive = drive_gains(settings.drive, robot, settings.grip.joints)
        self._no_motion = np.zeros(3)
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next step is the first."""
        self._guess: Guess | None = None
        self._rehearsal: tuple[State, ContactSet, Array, Array, Law, Guess, Array | None] | None = None
        self._time = self._shown = 0.0  # since the first tick, and that of the last reference [s]
        self._foresight.reset()
        self._reality.reset()
        self._trajectory.reset()
        self._source.reset()
        self._landing.reset()
        self._feedback.reset()
        self._torque_feedback.reset()
        self._sensed.reset()
        self._safety.reset()

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.robot.limits

    def contacts(self, q: Array, touching: Sequence[str] | None = None) -> ContactSet:
        """Contacts from geometry at configuration q; or those of the places `touching`, in that order: their points and normals
        are those of geometry, their gaps 0 whatever it says."""
        if touching is None:
            return contacts_from_geometry(self.robot, q, self.terrain, margin=self._source.reach, mu=self._mu)
        return touched(contacts_from_geometry(self.robot, q, self.terrain, margin=np.inf, mu=self._mu), touching)

    def step(self, state: State, contacts: ContactSet, inputs: Inputs) -> Command:
        """One tick. Never raises on data, malformed ones included: `Command.mode` and `.message` say when the torque is not the
        law's own answer."""
        fault = "emergency stop" if inputs.estop else self._safety.fault(state)
        if fault:
            return self._stopped(state, Mode.DAMPING if inputs.estop else Mode.FAULT, fault)
        self._time += inputs.dt
        reality = self._reality.measure(state, inputs)
        state = self._foresight.ahead(state, inputs.delay)
        self._shown = max(self._shown, self._time + inputs.delay)
        reference = inputs.reference or self._trajectory.at(self._shown, state, contacts)
        self._sensed.measure(contacts, inputs.sensed_force)
        angles, speeds = self.robot.joint_angles(state.q), state.v[self.robot.tree.a]
        reference = self._grip.reference(reference, contacts, angles)
        grip = self._grip.torque(angles, speeds)
        direct = grip
        if self._torque_feedback.active:
            feedback = self._torque_feedback.correction(reference, angles, speeds, inputs.dt)
            direct = self._grip.filled(self._grip.prescribed(feedback)) + grip
        if self.law is None:
            direct = direct + self._stabilised(state, self._source.pick(contacts, reference.schedule), reference)
            return self._without_model(reference, direct, inputs)
        demand = self._feedback.acceleration(reference, angles, speeds, inputs.dt)
        law, contacts, demand = self._contact_model(self.law, state, contacts, reference, demand)
        lean = self._spread.preferred(state, contacts, reference.q) if self._spread.active else None
        try:
            prediction = self._predict(state, contacts, demand, grip, law, self._guess, lean)
        except InputError as error:  # a demand beyond all numbers, a contact that is none
            self._guess = None
            return self._without_answer(state, str(error))
        self._guess = prediction.guess
        self._foresight.note((prediction.v_plus - state.v) / prediction.dt)
        self._rehearsal = state, contacts, demand, grip, law, prediction.guess, lean
        if not prediction.status.certified and not np.isfinite(prediction.tau).all():
            self._guess = None
            return self._without_answer(state, prediction.status.sentence)
        mode, message = self._judge(prediction, law)
        problem = reference.problem or (reality.problem if reality else "")
        if mode is Mode.OK and problem:
            mode, message = Mode.DEGRADED, problem
        forward = self._grip.filled(prediction.tau)
        direct = direct + self._stabilised(state, contacts, reference)
        tau, limited_by = self._safety.limit(forward + direct, inputs.dt, inputs.tau_applied)
        known = kept(self.robot, len(contacts)) if self._model is self.robot else None  # what the prediction was made with
        self._reality.expect(state, contacts, prediction, tau - forward - grip, known)
        return Command(
            tau=tau,
            tau_ff=forward,
            tau_fb=direct,
            limited_by=limited_by,
            mode=mode,
            prediction=prediction,
            message=message,
            reference=reference,
            missing=self._source.missing(contacts, reference.schedule),
            drive=self._drive,
            reality=reality,
        )

    def rehearse(self) -> None:
        """Do the last step's work once more and forget it: right before the next one, code and data are in the caches then."""
        if self._rehearsal is not None:
            self._predict(*self._rehearsal)

    def _contact_model(
        self, law: Law, state: State, contacts: ContactSet, reference: Reference, demand: Array
    ) -> tuple[Law, ContactSet, Array]:
        """The law of this tick, the contacts that take part, and what they leave of the demand. Who senses forces takes them
        all, planned or not."""
        if isinstance(law, Sensed):
            return Sensed(self._sensed.impulses(contacts, self.settings.period)), contacts, demand
        contacts = self._source.pick(contacts, reference.schedule)
        if self.settings.contact.source == "fused":
            touches, demand = self._landing.anticipate(state, contacts, demand)
            contacts = contacts.take(touches)
        return law, contacts, demand

    def _stabilised(self, state: State, contacts: ContactSet, reference: Reference) -> Array | float:
        """The stabilisation's torque (na)."""
        if not self._stabilisation.active:
            return 0.0
        base = self._no_motion if reference.base is None else reference.base
        return self._stabilisation.torque(state, contacts, base)

    def _without_model(self, reference: Reference, feedback: Array, inputs: Inputs) -> Command:
        """PID: the torque is the feedback, at the joints that grip their springs'."""
        tau, limited_by = self._safety.limit(feedback, inputs.dt, inputs.tau_applied)
        return Command(
            tau=tau, tau_ff=np.zeros(self.robot.na), tau_fb=feedback, limited_by=limited_by, mode=Mode.OK,
            prediction=None, reference=reference, drive=self._drive,
        )  # fmt: skip

    def _predict(
        self,
        state: State,
        contacts: ContactSet,
        demand: Array,
        grip: Array,
        law: Law,
        guess: Guess | None,
        preferred: Array | None,
    ) -> Prediction:
        return predict(
            self._model,
            state,
            contacts,
            self._grip.prescribed(demand),
            law=law,
            dt=self._horizon,
            options=self._options_for(contacts),
            guess=guess,
            applied=self._grip.applied(grip),
            preferred=preferred,
        )

    def _options_for(self, contacts: ContactSet) -> Options:
        ground = self._options.ground
        if self.settings.contact.source != "fused" or not len(contacts) or contacts.gaps.max() <= ground.touching:
            return self._options
        return msgspec.structs.replace(self._options, ground=msgspec.structs.replace(ground, touching=contacts.gaps.max()))

    def snapshot(self) -> dict[str, Any]:
        """Everything needed to build this controller again elsewhere: settings, robot, stance."""
        return {
            "settings": msgspec.to_builtins(self.settings),
            **msgspec.to_builtins(self.robot.description),
            "stance": list(map(float, self.stance)),
        }

    def _judge(self, prediction: Prediction, law: Law) -> tuple[Mode, str]:
        if not prediction.status.certified:
            return Mode.DEGRADED, f"{prediction.rung}: {prediction.status.sentence}"
        if not prediction.status.ok:
            return Mode.DEGRADED, f"the {prediction.law} law answered for {law.name}"
        if prediction.torque_excess > 0.0:
            return Mode.DEGRADED, f"the demand needs {prediction.torque_excess:.3g} N·m more than the torque limits give"
        if prediction.force_excess > 0.0:
            return Mode.DEGRADED, f"a contact is to carry {prediction.force_excess:.3g} N more than the force limit"
        return Mode.OK, ""

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
