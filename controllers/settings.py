"""What a controller is made of: `configs/controllers/*.toml`."""

from controllers.config.loading import Kind, Settings
from controllers.contact.ground import AnyGround, YieldingSettings
from controllers.contact.source import ContactSettings
from controllers.drive import DriveSettings
from controllers.feedback.grip import AnyGrip
from controllers.feedback.joints import FeedbackSettings
from controllers.feedback.spread import SpreadSettings
from controllers.feedback.stabilisation import StabilisationSettings
from controllers.monitor.reality import RealitySettings
from controllers.monitor.safety import SafetySettings
from controllers.planners.trajectory import AnyTrajectory, HoldSettings
from idyn.laws.settings import AnyLaw, CoulombSettings
from idyn.types import Consistency, Selection


class PidSettings(Kind, frozen=True, tag="pid"):
    """No law and no model: joint feedback on torque, `[torque_feedback]`, is all there is  [ZD §7.3]."""


AnyControlLaw = AnyLaw | PidSettings
"""`[law]` of a controller."""


class ControllerSettings(Settings, frozen=True):
    """A controller.

    robot: name or path of its configuration
    law: a kind of `idyn.laws.LAWS`, or 'pid', and what it can be given
    selection: see `idyn.types`; 'force' uses no friction that the motion does not need: on ground that yields, feet held
        against one another creep
    consistency: see `idyn.types`; 'hold': feet on the ground are neither dragged nor lifted by the demand
    bounded: see `idyn.options.Options`
    warm_start: begin each tick at the basis of the last; without it every tick stands alone, as in the paper
    period: nominal control period [s]
    ground: what the ground is taken for
    feedback: gains on acceleration
    torque_feedback: gains on torque, which comes on top of every law's; none by default
    reference: what the joints are to do
    grip: joints that grip instead; None: none
    """

    robot: str
    law: AnyControlLaw = CoulombSettings()
    selection: Selection = Selection.FORCE
    consistency: Consistency = Consistency.HOLD
    bounded: bool = True
    warm_start: bool = True
    period: float = 0.001
    contact: ContactSettings = ContactSettings()
    ground: AnyGround = YieldingSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    torque_feedback: FeedbackSettings = FeedbackSettings(kp=0.0, kd=0.0)
    reference: AnyTrajectory = HoldSettings()
    stabilisation: StabilisationSettings = StabilisationSettings()
    spread: SpreadSettings = SpreadSettings()
    grip: AnyGrip | None = None
    drive: DriveSettings = DriveSettings()
    safety: SafetySettings = SafetySettings()
    reality: RealitySettings = RealitySettings()
