"""Quantities that comparisons tabulate, by name."""

from collections.abc import Callable
from typing import NamedTuple

from sim_harness.measure.metrics import Summary


class Quantity(NamedTuple):
    """A quantity of a run.

    heading: of its column, with unit; value: function that returns the quantity of a run, NaN where it is undefined
    """

    heading: str
    value: Callable[[Summary], float]


QUANTITIES = {
    "tracking": Quantity("E|θ−θ_des| rad", lambda s: s.tracking),
    "joint-error": Quantity("E|θ−θ_des| mrad", lambda s: 1e3 * s.tracking),
    "last-joint-error": Quantity("E|θ−θ_des| in the last second mrad", lambda s: 1e3 * s.last_tracking),
    "risen": Quantity("time to get up s", lambda s: s.risen),
    "speed-tracking": Quantity("E|θ̇−θ̇_des| rad/s", lambda s: s.speed_tracking),
    "torque-rate": Quantity("E|dτ/dt| N·m/s", lambda s: s.torque_rate),
    "torque-rate-max": Quantity("max |dτ/dt| N·m/s", lambda s: s.torque_rate_max),
    "torque": Quantity("E|τ| N·m", lambda s: s.torque),
    "force-error": Quantity("Σf_N error N", lambda s: s.force_error),
    "force-error-relative": Quantity("Σf_N error %", lambda s: 100 * s.force_error_relative),
    "contact-force-error": Quantity("f_N error of a contact N", lambda s: s.contact_force_error),
    "path-error": Quantity("CoM distance from path mm", lambda s: 1e3 * s.path_error),
    "distance": Quantity("distance travelled by the base m", lambda s: s.distance),
    "progress": Quantity("displacement of the base m", lambda s: s.drift),
    "forward": Quantity("mean forward velocity m/s", lambda s: s.forward),
    "left": Quantity("mean velocity to the left m/s", lambda s: s.left),
    "turn": Quantity("mean turn rate rad/s", lambda s: s.turn),
    "told": Quantity("loaded contacts in the prediction %", lambda s: 100 * s.told),
    "substituted": Quantity("ticks answered by another law %", lambda s: 100 * s.substituted),
}
"""Smaller is better, except for `distance`, `progress`, `told` and the velocities."""
