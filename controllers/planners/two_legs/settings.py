"""Settings of the gait of two legs: steps and balance."""

from typing import Annotated

from controllers.config.loading import NonNegative, Positive, Settings
from controllers.config.tables import within


class StepSettings(Settings, frozen=True):
    """Timing and size of the steps."""

    period: Annotated[float, within(0.2, 3, "s")] = 0.7  # of a step, from touchdown to touchdown [s]
    double_support: Annotated[float, within(0.02, 0.9, "")] = 0.25  # share of the period in which both feet stand
    height: Annotated[float, within(0.005, 0.5, "m")] = 0.05  # highest point of the swinging foot above the ground [m]
    width: NonNegative = 0.0  # distance of the feet to the side [m]; 0: as in the stance
    # the next three are bounds of each step; of them a velocity may use 0.9
    longest: Positive = 0.35  # largest distance of a foot ahead of or behind the other one [m]
    # narrowest, widest: least and largest distance of the feet to the side, as shares of `width`
    narrowest: Annotated[float, within(0.1, 1, "")] = 0.5
    widest: Annotated[float, within(1, 3, "")] = 1.8
    acceleration: Positive = 0.3  # largest change of the commanded velocity [m/s², rad/s²]


class BalanceSettings(Settings, frozen=True):
    """Feedback of the divergent component of motion."""

    gain: NonNegative = 4.0  # rate at which its error shall vanish [1/s]
    margin: NonNegative = 0.01  # distance that the centre of pressure keeps from the edges of the soles [m]
    lower: NonNegative = 0.03  # height by which the centre of mass is below that of the stance [m]
