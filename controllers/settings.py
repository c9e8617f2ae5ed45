"""Settings of a controller: `configs/controllers/*.toml`."""

from controllers.config.loading import Kind, NonNegative, Settings
from controllers.contact.ground import AnyGround, YieldingSettings
from controllers.contact.source import ContactSettings
from controllers.estimation.memory import EstimatorSettings
from controllers.feedback import FeedbackSettings, SpreadSettings, StabilisationSettings
from controllers.grip import AnyGrip
from controllers.monitor.alarms import AlarmSettings
from controllers.monitor.reality import RealitySettings
from controllers.monitor.safety import SafetySettings
from controllers.planners.getting_up import GetUpSettings
from controllers.planners.trajectory import AnyTrajectory, HoldSettings
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.damping import DriveSettings
from idyn.laws import AnyLaw, CoulombSettings
from idyn.types import Consistency, Selection


class PidSettings(Kind, frozen=True, tag="pid"):
    """Joint feedback `[torque_feedback]` alone, without contact law and model  [ZD §7.3]."""


AnyControlLaw = AnyLaw | PidSettings  # type of `[law]` in the file of a controller
AnyReference = AnyTrajectory | TwoLegsSettings | GetUpSettings  # type of `[reference]` in the file of a controller


class ControllerSettings(Settings, frozen=True):
    """Settings of a controller."""

    robot: str  # name or path of the robot's configuration
    law: AnyControlLaw = CoulombSettings()  # contact law, a kind of `idyn.laws.LAWS` with its settings, or 'pid'
    # see `idyn.types`. 'force' uses no more friction than the motion needs: on compliant ground, feet that brace against each
    # other creep
    selection: Selection = Selection.FORCE
    # see `idyn.types`. 'hold': the demand neither drags nor lifts feet that are on the ground
    consistency: Consistency = Consistency.HOLD
    bounded: bool = True  # see `idyn.options.Options`
    warm_start: bool = True  # start each tick from the last basis; false: cold starts only, as in the paper
    period: float = 0.001  # nominal control period [s]
    # time constant T with which measured speeds correct the predicted ones [s]: their noise reaches the torques √(dt/2T) times,
    # a push after this time; 0: speeds are used as measured
    speed_memory: NonNegative = 0.0
    contact: ContactSettings = ContactSettings()  # which contacts take part in the prediction
    ground: AnyGround = YieldingSettings()  # contact compliance model
    feedback: FeedbackSettings = FeedbackSettings()  # joint feedback gains on acceleration, which change the demand
    # joint feedback gains on torque, added to the torque of any law; 0 by default
    torque_feedback: FeedbackSettings = FeedbackSettings(kp=0.0, kd=0.0)
    reference: AnyReference = HoldSettings()  # reference trajectory of the joints
    stabilisation: StabilisationSettings = StabilisationSettings()  # feedback of the base by virtual forces at the feet
    spread: SpreadSettings = SpreadSettings()  # contact forces that bring displaced feet back
    grip: AnyGrip | None = None  # joints that grip instead of following the trajectory; None: without
    drive: DriveSettings = DriveSettings()  # gains of the drives while replies are missing
    safety: SafetySettings = SafetySettings()  # limits and fallback of the torque
    reality: RealitySettings = RealitySettings()  # model-mismatch monitor
    alarms: AlarmSettings = AlarmSettings()  # thresholds and times of the alarms
    # of the base, for robots that measure only joints and an IMU; None: the base must be measured
    estimator: EstimatorSettings | None = None
