"""Which contacts the prediction is told of: those that are measured, those that are planned, or both fused."""

from collections.abc import Callable
from functools import cache, lru_cache

import msgspec
import numpy as np

from controllers.command import Schedule
from controllers.config.loading import Kind, NonNegative, Settings
from controllers.contact.landing import Landing
from controllers.contact.terrain import AnyTerrain, FlatSettings
from idyn.contact.ground import Ground
from idyn.errors import ConfigError
from idyn.jit.compiled import FLAGS, INDICES, VECTOR, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Kinematics


class ContactSource:
    """Contacts nearer than the margin, whatever is planned.

    lands: whether feet that come down change the contacts and the demand, see `land`
    """

    lands = False

    def __init__(self, robot: Robot, margin: float, reach: float) -> None:
        """margin: contacts nearer than this take part [m]; reach: up to which gap `pick` wants to know of them [m]"""
        self._places, self._margin, self.reach = robot.spheres, margin, reach

    def reset(self) -> None:
        """Nothing was in contact."""

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        """Those of the contacts that the prediction may be told of."""
        near = max(contacts.gaps.tolist(), default=self._margin) <= self._margin
        return contacts if near else contacts.within(self._margin)

    def land(self, at: Kinematics, contacts: ContactSet, demand: Array, ground: Ground) -> tuple[ContactSet, Array, Ground]:
        """Of a source that `lands`: the picked contacts that there will be within the period, the demand that goes with it
        [rad/s²] (na), and the ground under them."""
        raise NotImplementedError

    def missing(self, contacts: ContactSet, schedule: Schedule | None) -> tuple[str, ...]:
        """The places that are planned to stand but are not among the contacts."""
        if schedule is None:
            return ()
        return _missing(self._places.keys, schedule.stance.tobytes(), contacts.keys)


@lru_cache(maxsize=1024)
def _missing(places: tuple[str, ...], stands: bytes, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(place for place, is_to_stand in zip(places, stands, strict=True) if is_to_stand and place not in keys)


class Planned(ContactSource):
    """The feet that are planned to stand, taken to touch whatever their gap; without a plan, near ones."""

    _keys: tuple[str, ...] | None = None  # of the last contacts, and
    _rows: Array  # which places they have

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        if schedule is None:
            return super().pick(contacts, schedule)
        stands = np.empty(len(contacts.keys), dtype=np.bool_)
        gaps = np.ascontiguousarray(contacts.gaps, np.float64)
        if contacts.keys is not self._keys:
            self._keys, self._rows = contacts.keys, self._places.rows(contacts.keys)
        if _planned()((schedule.stance,), (self._rows,), (gaps,), (stands,)):
            return contacts
        picked = contacts.take(stands)
        return msgspec.structs.replace(picked, gaps=np.minimum(picked.gaps, 0.0))


@cache
def _planned() -> Callable[..., bool]:
    return entrance(_as_planned, Lent(FLAGS), Lent(INDICES), Lent(VECTOR), Filled(FLAGS))


@compiled
def _as_planned(feet: tuple[Array], places: tuple[Array], contacts: tuple[Array], out: tuple[Array]) -> bool:
    """Fill which contacts are to stand, those without a place among them (n, bool). Whether all are, and touch.

    feet: which are to stand; places: of the contacts among the feet, −1 for none (n); contacts: their gaps (n)
    """
    (stance,), (rows,), (gaps,), (stands,), touch = feet, places, contacts, out, True
    for i in range(len(stands)):
        stands[i] = rows[i] < 0 or stance[rows[i]]
        touch = touch and stands[i] and gaps[i] <= 0.0
    return touch


class Fused(ContactSource):
    """Near feet that may stand, and those that come down arrive at rest. Owns which were there in the last tick, for the
    hysteresis, and which have landed."""

    lands = True

    def __init__(self, settings: "FusedSettings", robot: Robot, margin: float, landing: Landing) -> None:
        super().__init__(robot, margin, max(margin, settings.release))
        self._settings, self._landing = settings, landing
        self.reset()

    def reset(self) -> None:
        self._held: frozenset[str] = frozenset()
        self._landing.reset()

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        if schedule is None:
            return super().pick(contacts, schedule)
        s = self._settings
        may = schedule.stance | (schedule.time_to_switch <= s.early)
        allowed = dict(zip(self._places.keys, may.tolist(), strict=True))
        near = [
            allowed.get(key, True) and gap <= (s.release if key in self._held else self._margin)
            for key, gap in zip(contacts.keys, contacts.gaps.tolist(), strict=True)
        ]
        picked = contacts.take(np.array(near, dtype=np.bool_))
        self._held = frozenset(picked.keys)
        return picked

    def land(self, at: Kinematics, contacts: ContactSet, demand: Array, ground: Ground) -> tuple[ContactSet, Array, Ground]:
        """All of them touch, those that are about to arrive as well."""
        touches, demand = self._landing.anticipate(at, contacts, demand)
        contacts = contacts.take(touches)
        return contacts, demand, reaching(ground, contacts)


def reaching(ground: Ground, contacts: ContactSet) -> Ground:
    """The ground with all contacts touching it."""
    if not len(contacts) or contacts.gaps.max() <= ground.touching:
        return ground
    return msgspec.structs.replace(ground, touching=contacts.gaps.max())


class SourceSettings(Kind, frozen=True):
    """Base of the ways to know what touches."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        """The source of a controller with ticks of that period [s] on that ground. Raises ConfigError."""
        raise NotImplementedError


class GeometrySettings(SourceSettings, frozen=True, tag="geometry"):
    """Spheres of the robot against the ground, or what the state brings instead."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return ContactSource(robot, margin, reach=margin)


class ReportedSettings(SourceSettings, frozen=True, tag="sensed"):
    """Only what the state brings."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return ContactSource(robot, margin, reach=-np.inf)


class PlannedSettings(SourceSettings, frozen=True, tag="planner"):
    """Exactly the feet that are planned to stand, taken to touch whatever their gap."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return Planned(robot, margin, reach=np.inf)


class FusedSettings(SourceSettings, frozen=True, tag="fused"):
    """Measured contacts of feet that may stand, which is until the planned lift-off.

    release: a contact is kept until it is farther than this [m]
    early: so long before its planned touchdown a foot may stand [s]
    """

    release: NonNegative = 0.004
    early: NonNegative = 0.03

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        if not margin <= self.release:
            raise ConfigError("contact.source.release", f"expected at least the margin {margin}, got {self.release}")
        return Fused(self, robot, margin, Landing(robot, ground, period))


AnySource = GeometrySettings | ReportedSettings | PlannedSettings | FusedSettings
"""`contact.source` of a controller."""


class ContactSettings(Settings, frozen=True):
    """Which contacts there are and how far gaps are trusted.

    source: how it is known what touches
    ground, terrain: height [m] and shape of the ground, for contact spheres against it; contacts that come with a state
        replace these
    mu: friction coefficient of every contact instead of the robot's and the terrain's own
    margin: contacts nearer than this take part [m]
    """

    source: AnySource = GeometrySettings()
    ground: float = 0.0
    terrain: AnyTerrain = FlatSettings()
    mu: NonNegative | None = None
    margin: NonNegative = 0.002
