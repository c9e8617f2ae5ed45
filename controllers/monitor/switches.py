"""Foot switches that contradict kinematics and forces, or that flicker. No switch stops the robot.

A switch that closes for at most `TAP` and opens while its foot stays where it touched counts as closed for `LONG`, without a
message, while the plan has all feet on the ground: a foot that carries hardly what the switch needs is still a contact, and
two feet of a light robot that close their switches by turns would never be loaded together. Contradictions, each over a
time:

    air        closed, although the foot is well above the lowest foot (over the terrain): the foot counts as open
    held       open, although the foot stays where it is while the joints of its leg leave their reference: counts as closed
    force      open, although a force is sensed at the foot, which is not in the air: counts as closed
    unloaded   closed, although no force is sensed: only told
"""

from typing import NamedTuple

import numpy as np

from controllers.monitor.alarms import AlarmNumbers, AlarmSettings
from idyn.library.kernels import compiled, entry
from idyn.library.records import ArrayRecord, Matrix, Vector
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet

OPEN, CLOSED, UNKNOWN = 0.0, 1.0, -1.0
"""Values of a switch; UNKNOWN: open, at a foot that shall be in the air: it may stay where it is while its joints move."""

LONG = 0.02  # time until air, held and force are contradictions; a switch that opens after a tap counts as closed for it [s]
TAP = 3.5e-3  # longest closing of a switch that is a tap [s]
REST = 2e-3  # a foot stays where it is while it moves by less than this [m]
NO_FORCE = 0.005  # largest force of a foot that carries nothing, as a share of the weight


class Contradiction(NamedTuple):
    """A row of the table of alarms. `AlarmSettings` says what is compared with the threshold."""

    name: str
    threshold: str  # name of the setting
    text: str  # message
    counts_as: str = ""  # what follows for the switch
    after: float = LONG  # time until it is named [s]


CONTRADICTIONS = (
    Contradiction("closed in the air", "switch_air", "is closed {value:.3f} m above the lowest foot", ", it counts as open"),
    Contradiction(
        "open at a held foot",
        "switch_held",
        "is open while its foot is held: its leg is {value:.3f} rad off",
        ", it counts as closed",
    ),
    Contradiction("open under a force", "switch_force", "is open at {value:.0%} of the weight", ", it counts as closed"),
    Contradiction("closed without a force", "switch_unloaded", "is closed without a force for {value:.1f} s", after=0.0),
)

AIR, HELD, FORCE, UNLOADED, NOTHING, RESTING = range(6)
"""Their numbers, that of a switch without one, and that of a switch that has just opened at a resting foot."""


class SwitchState(ArrayRecord):
    """State of the switches of n contact places, and thresholds."""

    legs: Matrix  # 1 for the joints that move a place, else 0 (n, na)
    anchor: Matrix  # place where a foot with an open switch stays [m] (n, 3)
    since: Matrix  # distance of the joints from their references when it came there (n, na)
    # still, high, pressed, idle: times for which the foot stays, is in the air with a closed switch, presses on an open one,
    # carries nothing with a closed one [s] (n)
    still: Vector
    high: Vector
    pressed: Vector
    idle: Vector
    opened: Vector  # time since the switch opened after a tap at a foot that stays, else ∞; 0: closed [s] (n)
    closed: Vector  # duration of the last closing [s] (n)
    stuck: Vector  # 1 for switches that are open at a held foot (n)
    found: Vector  # contradictions (n)
    values: Vector  # their measures (n)
    limits: AlarmNumbers  # thresholds
    weight: float  # of the robot [N]

    def __init__(self, legs: Array, settings: AlarmSettings, weight: float) -> None:
        n, na = legs.shape
        self.put(legs=legs, anchor=np.zeros((n, 3)), since=np.zeros((n, na)))
        self.put(**{name: np.zeros(n) for name in ("still", "high", "pressed", "idle", "stuck", "found", "values")})
        self.put(opened=np.full(n, np.inf), closed=np.zeros(n))
        self.put(limits=AlarmNumbers(settings), weight=weight)

    def reset(self) -> None:
        for each in (self.anchor, self.since, self.still, self.high, self.pressed, self.idle, self.stuck, self.found):
            each.fill(0.0)
        self.opened.fill(np.inf)
        self.closed.fill(0.0)


class Switches:
    """Watches the foot switches of one robot."""

    def __init__(self, settings: AlarmSettings, robot: Robot) -> None:
        self._robot = robot
        spheres, tree = robot.spheres, robot.tree
        legs = np.ascontiguousarray(tree.support[spheres.joints][:, tree.a], np.float64)
        if not robot.one_axis_each:
            legs.fill(0.0)
        self._record = SwitchState(legs, settings, robot.weight)
        self._unsensed = np.full(len(spheres.keys), np.nan)
        self._told: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # closed and lifted places of `_closed`
        self._closed = np.zeros(len(spheres.keys))

    def reset(self) -> None:
        self._record.reset()

    def judge(
        self,
        contacts: ContactSet,
        keys: tuple[str, ...],
        off: Array,
        since: tuple[float, bool, bool],
        forces: dict[str, float],
        lifted: tuple[str, ...] = (),
    ) -> tuple[tuple[str, ...], str]:
        """Return the contact places whose switches count as closed, and which switches contradict, '' without any.

        contacts: all in geometry, those of the contact spheres first; keys: places with a closed switch
        off: angles minus reference [rad] (na)
        since: time since the last state [s], whether the asked torques acted meanwhile, and whether the plan has all feet on
            the ground; forces: place → sensed force [N]
        lifted: places that shall be in the air
        """
        spheres, force = self._robot.spheres, self._unsensed
        if forces:
            force = np.array([forces.get(place, np.nan) for place in spheres.keys])
        if (keys, lifted) != self._told:  # switches seldom change
            self._told = keys, lifted
            for k, place in enumerate(spheres.keys):
                self._closed[k] = CLOSED if place in keys else UNKNOWN if place in lifted else OPEN
        measured = contacts.points, contacts.gaps, self._closed, force, off
        return self._corrected(keys) if watch(self._record, *since, measured) else (keys, "")

    def _corrected(self, keys: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """Return the places whose switches count as closed, and the message."""
        record, believed, said = self._record, list(keys), []
        for k, place in enumerate(self._robot.spheres.keys):
            found = int(record.found[k])
            if found == AIR:
                believed.remove(place)
            elif found in (HELD, FORCE, RESTING):
                believed.append(place)
            if found not in (NOTHING, RESTING):
                row = CONTRADICTIONS[found]
                said.append(f"{place} {row.text.format(value=record.values[k])}{row.counts_as}")
        return tuple(believed), f"foot switch: {'; '.join(said)}" if said else ""


@entry(SwitchState, float, bool, bool, (Matrix, Vector, Vector, Vector, Vector))
def watch(switches: SwitchState, dt: float, acted: bool, rests: bool, measured: tuple[Array, ...]) -> int:
    """Update all switches. Return the number of switches with a finding; `found` and `values` have them.

    dt: time since the last state [s]; acted: whether the asked torques acted meanwhile; rests: whether the plan
        has all feet on the ground
    measured: contact points (≥ n, 3) and gaps (≥ n) [m], switches: CLOSED, OPEN or UNKNOWN (n), sensed forces [N], NaN:
        unknown (n), angles minus reference [rad] (na)
    """
    points, gaps, closed, forces, off = measured
    lowest, count = np.inf, 0
    pressing, idle = switches.limits.switch_force * switches.weight, NO_FORCE * switches.weight
    for k in range(len(closed)):
        lowest = min(lowest, gaps[k])
    for k in range(len(closed)):
        shut, height, force = closed[k] == CLOSED, gaps[k] - lowest, forces[k]
        flies = height > switches.limits.switch_air
        leg = _leg(switches, k, points[k], off, dt if acted and closed[k] == OPEN else 0.0)
        # NaN compares as false: a force that is not sensed contradicts nothing
        switches.high[k] = switches.high[k] + dt if shut and flies else 0.0
        switches.pressed[k] = switches.pressed[k] + dt if not shut and not flies and force > pressing else 0.0
        switches.idle[k] = switches.idle[k] + dt if shut and force < idle else 0.0
        if shut:
            switches.closed[k] = dt + (switches.closed[k] if switches.opened[k] == 0.0 else 0.0)
            switches.opened[k] = 0.0
        else:
            tapped = rests and switches.still[k] > 0.0 and switches.closed[k] <= TAP
            switches.opened[k] = switches.opened[k] + dt if tapped else np.inf
        if shut or flies or closed[k] == UNKNOWN:
            switches.stuck[k] = 0.0
        elif switches.still[k] >= LONG and leg > switches.limits.switch_held:
            switches.stuck[k], switches.values[k] = 1.0, leg
        found = NOTHING
        if switches.high[k] > LONG:
            found, switches.values[k] = AIR, height
        elif switches.pressed[k] > LONG:
            found, switches.values[k] = FORCE, force * NO_FORCE / idle
        elif switches.stuck[k] > 0.0:
            found = HELD
        elif switches.idle[k] > switches.limits.switch_unloaded:
            found, switches.values[k] = UNLOADED, switches.idle[k]
        elif not shut and not flies and switches.opened[k] <= LONG:
            found = RESTING
        switches.found[k] = found
        count += found != NOTHING
    return count


@compiled
def _leg(switches: SwitchState, k: int, point: Array, off: Array, dt: float) -> float:
    """Update how long foot k stays where it is with an open switch. Return how far the joints of its leg have left their
    references since then. point: its contact point [m]; dt: time since the last state [s]; 0: begin anew"""
    anchor, since, square, most = switches.anchor, switches.since, 0.0, 0.0
    for c in range(3):
        square += (point[c] - anchor[k, c]) ** 2
    if square > REST * REST or dt == 0.0:
        switches.still[k] = 0.0
        for c in range(3):
            anchor[k, c] = point[c]
        for j in range(len(off)):
            since[k, j] = off[j]
        return 0.0
    switches.still[k] += dt
    for j in range(len(off)):
        most = max(most, switches.legs[k, j] * abs(off[j] - since[k, j]))
    return most
