"""Settings of the model-predictive planner."""

from typing import Annotated

from controllers.config.loading import Positive, Settings
from controllers.config.tables import within
from controllers.planners.gait import GaitSettings
from controllers.planners.path import PathSettings


class MpcSettings(Settings, frozen=True):
    """A gait planned by model-predictive control beside the control loop.

    gait: timing and shape of the steps
    rate: plans per second [Hz]
    steps, step: number and duration of the steps of the horizon [s]
    friction: coefficient up to which forces are planned
    path: motion of the base
    """

    gait: GaitSettings = GaitSettings(period=0.35, duty=0.55, step_height=0.05)
    rate: Annotated[float, within(20, 500, "Hz")] = 100.0
    steps: Annotated[int, within(2, 30, "")] = 12
    step: Annotated[float, within(0.01, 0.1, "s")] = 0.02
    friction: Positive = 0.5
    path: PathSettings = PathSettings(acceleration=1.0)
