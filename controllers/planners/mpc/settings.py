"""Settings of the model-predictive planner."""

from typing import Annotated

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import within
from controllers.planners.gait import GaitSettings
from controllers.planners.path import PathSettings


class WeightSettings(Settings, frozen=True):
    """Weights of the predictive controller's errors.

    attitude: roll, pitch, yaw [1/rad²]; position: of the centre of mass [1/m²]
    turn: angular velocity [s²/rad²]; velocity: of the centre of mass [s²/m²]
    force: difference of the forces from equal shares of the weight [1/weight²]
    """

    attitude: tuple[float, float, float] = (10.0, 10.0, 5.0)
    position: tuple[float, float, float] = (20.0, 20.0, 100.0)
    turn: tuple[float, float, float] = (0.1, 0.1, 0.3)
    velocity: tuple[float, float, float] = (10.0, 10.0, 5.0)
    force: Positive = 3.0


class MpcSettings(Settings, frozen=True):
    """A gait planned by model-predictive control beside the control loop.

    gait: timing and shape of the steps
    rate: plans per second [Hz]
    steps, step: number and duration of the steps of the horizon [s]
    friction: coefficient up to which forces are planned
    path: motion of the base
    weights: of the predictive controller
    stiffness: of the tasks of the body and of swinging feet [1/s²]; their damping is critical
    """

    gait: GaitSettings = GaitSettings(period=0.35, duty=0.55, step_height=0.05)
    rate: Annotated[float, within(20, 500, "Hz")] = 100.0
    steps: Annotated[int, within(2, 30, "")] = 12
    step: Annotated[float, within(0.01, 0.1, "s")] = 0.02
    friction: Positive = 0.5
    path: PathSettings = PathSettings(acceleration=1.0)
    weights: WeightSettings = WeightSettings()
    stiffness: tuple[NonNegative, NonNegative] = (100.0, 400.0)
