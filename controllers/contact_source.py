"""Which contacts the prediction is told of: those that are measured, those that are planned, or both fused."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from controllers.command import Schedule
from controllers.config import NonNegative, Settings
from controllers.terrain import TerrainSettings
from idyn.errors import ConfigError
from idyn.types import ContactSet


class ContactSettings(Settings, frozen=True):
    """Which contacts there are and how far gaps are trusted.

    source: 'geometry': spheres of the robot against the ground, or what the state brings instead; 'sensed': only what the
        state brings; 'planner': exactly the feet that are planned to stand, taken to touch whatever their gap;
        'fused': measured contacts of feet that may stand: from `early` before the planned touchdown to the planned lift-off
    ground, terrain: height [m] and shape of the ground, for contact spheres against it; contacts that come with a state
        replace these
    mu: friction coefficient of every contact instead of the robot's and the terrain's own
    margin: contacts nearer than this take part [m]
    release: 'fused' keeps a contact until it is farther than this [m]
    early: before its planned touchdown [s]
    """

    source: Literal["geometry", "sensed", "planner", "fused"] = "geometry"
    ground: float = 0.0
    terrain: TerrainSettings = TerrainSettings()
    mu: NonNegative | None = None
    margin: NonNegative = 0.002
    release: NonNegative = 0.004
    early: NonNegative = 0.03


class ContactSource:
    """Picks the contacts of a tick; owns which were there in the last one, for the hysteresis."""

    def __init__(self, settings: ContactSettings, places: tuple[str, ...]) -> None:
        """places: names of the robot's contact places (n), in the order of schedules. Raises ConfigError."""
        if settings.source == "fused" and not settings.margin <= settings.release:
            raise ConfigError("contact.release", f"expected at least the margin {settings.margin}, got {settings.release}")
        self._settings = settings
        self._places = places
        self.reset()

    def reset(self) -> None:
        """Nothing was in contact."""
        self._held: frozenset[str] = frozenset()

    @property
    def reach(self) -> float:
        """Up to which gap `pick` wants to know of contacts [m]."""
        s = self._settings
        return {"sensed": -np.inf, "planner": np.inf, "fused": max(s.margin, s.release)}.get(s.source, s.margin)

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        """Those of the contacts that the prediction may be told of."""
        if schedule is None or self._settings.source in ("geometry", "sensed"):
            return contacts.take(contacts.gaps <= self._settings.margin)
        return self._planned(contacts, schedule) if self._settings.source == "planner" else self._fused(contacts, schedule)

    def missing(self, contacts: ContactSet, schedule: Schedule | None) -> tuple[str, ...]:
        """The places that are planned to stand but are not among the contacts."""
        if schedule is None:
            return ()
        return tuple(p for p, stands in zip(self._places, schedule.stance, strict=True) if stands and p not in contacts.keys)

    def _planned(self, contacts: ContactSet, schedule: Schedule) -> ContactSet:
        stance = dict(zip(self._places, schedule.stance.tolist(), strict=True))
        picked = contacts.take(np.array([stance.get(key, True) for key in contacts.keys], dtype=np.bool_))
        return msgspec.structs.replace(picked, gaps=np.minimum(picked.gaps, 0.0))

    def _fused(self, contacts: ContactSet, schedule: Schedule) -> ContactSet:
        s = self._settings
        may = schedule.stance | (schedule.time_to_switch <= s.early)
        allowed = dict(zip(self._places, may.tolist(), strict=True))
        near = [
            allowed.get(key, True) and gap <= (s.release if key in self._held else s.margin)
            for key, gap in zip(contacts.keys, contacts.gaps.tolist(), strict=True)
        ]
        picked = contacts.take(np.array(near, dtype=np.bool_))
        self._held = frozenset(picked.keys)
        return picked


def touched(contacts: ContactSet, keys: Sequence[str]) -> ContactSet:
    """The contacts called `keys`, in that order, as touching: with a gap of 0."""
    picked = contacts.take(np.array([contacts.keys.index(key) for key in keys], dtype=np.int64))
    return msgspec.structs.replace(picked, gaps=np.zeros(len(keys)))
