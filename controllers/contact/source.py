"""Contact sources: which contacts are passed to the prediction, by measurement, by the plan, or by both."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np

from controllers.command import Schedule
from controllers.config.loading import Kind, NonNegative, Settings
from controllers.contact.ground import AnyTerrain, StandingSettings
from idyn.contact.ground import Ground, opening_speed
from idyn.errors import ConfigError
from idyn.library.kernels import entry
from idyn.library.records import Flags, Indices, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.prediction.solve import workspace_for
from idyn.solvers.linalg import backward, cholesky, dot, forward
from idyn.terms.dynamics import fill_dynamics
from idyn.types import Array, ContactSet, Kinematics


def with_whole_soles(robot: Robot, touching: Sequence[str]) -> tuple[str, ...]:
    """Return the contacts that touch, with all other contact places of the same links."""
    links = soles_of(robot)
    touched = {links[key] for key in touching if key in links}
    soles = tuple(key for key, link in links.items() if link in touched)
    return soles + tuple(key for key in touching if key not in links)


def soles_of(robot: Robot) -> dict[str, str]:
    """Return the link of each contact place."""
    return {key: place.frame for key, place in zip(robot.spheres.keys, robot.description.contact, strict=True)}


Arrays = tuple[Array, ...]

STANDS = 3  # ticks with contact after which a foot stands. In the first of these ticks it still has its touchdown speed
RESTS = 2e-5  # largest gap of a standing contact [m]. A foot with a larger gap must land again before it counts as standing
DAMPING = 1e-6  # relative damping of the inverse of a leg, for stretched legs and legs with fewer than three joints


class Landing:
    """Finds the feet that touch down. Stores for how many ticks each contact has touched."""

    def __init__(self, robot: Robot, ground: Ground, period: float) -> None:
        """period: control period [s]"""
        self._robot, self._ground, self._period = robot, ground, period
        self.reset()

    def reset(self) -> None:
        self._ages: dict[str, int] = {}

    def anticipate(self, at: Kinematics, contacts: ContactSet, q_ddot: Array) -> tuple[Array, Array]:
        """Return which contacts touch now or within the period (n), and the changed demand [rad/s²] (na)."""
        touches = contacts.gaps <= RESTS
        stands = touches & np.array([self._ages.get(key, 0) >= STANDS for key in contacts.keys], dtype=np.bool_)
        if not stands.all():
            ground, workspace = self._ground, workspace_for(self._robot, len(contacts))
            workspace.prepare(ground, self._period, False)
            dynamics = workspace.problem.dynamics
            if fill_dynamics(self._robot, dynamics, at, contacts, None, None):  # otherwise `predict` names the malformed field
                motion = at.v, self._robot.tree.a, contacts.gaps
                numbers = self._period, ground.noise, ground.recovery_speed
                q_ddot, arrives = _land((dynamics.own["J"], dynamics.own["drift"]), motion, numbers, stands, q_ddot)
                touches = touches | arrives
        touching = (key for key, touch in zip(contacts.keys, touches.tolist(), strict=True) if touch)
        self._ages = {key: self._ages.get(key, 0) + 1 for key in touching}
        return touches, q_ddot


@entry((Matrix, Vector), (Vector, Indices, Vector), (float,) * 3, Flags, Vector)
def _land(
    rows: Arrays, motion: Arrays, numbers: tuple[float, float, float], stands: Array, q_ddot: Array
) -> tuple[Array, Array]:
    """Return the demand under which contacts that arrive within the period are then at rest (na), and which ones arrive (n).

    rows: (contact Jacobian (3n, nv), dt J̇ v (3n))
    motion: (v (nv), indices of the actuated velocities (na), gaps [m] (n))
    numbers: (period [s], noise [m] of the ground, its recovery speed [m/s])
    stands: which contacts already stand; these do not arrive (n)
    """
    (J_all, drift), (v, a, gaps), (dt, noise, recovery_speed) = rows, motion, numbers
    n, na, nv = len(gaps), len(a), len(v)
    softened, arrives = q_ddot.copy(), np.zeros(n, dtype=np.bool_)
    J, error, G = np.empty((3, na)), np.empty(3), np.empty((3, 3))
    for i in range(n):
        if stands[i]:
            continue
        # velocity error of an arrival at rest: [0, 0, −φ/dt] − J v − dt J̇ v − dt J_a q̈
        for r in range(3):
            error[r] = -drift[3 * i + r] - (opening_speed(gaps[i], dt, noise, recovery_speed) if r == 2 else 0.0)
            for j in range(nv):
                error[r] -= J_all[3 * i + r, j] * v[j]
            for k in range(na):
                J[r, k] = J_all[3 * i + r, a[k]]
                error[r] -= J[r, k] * dt * q_ddot[k]
        if error[2] < 0.0:
            continue
        arrives[i] = True
        # q̈ += J_aᵀ (J_a J_aᵀ + damping)⁻¹ error / dt
        trace = 0.0
        for r in range(3):
            for c in range(3):
                G[r, c] = dot(J[r], J[c])
            trace += G[r, r]
        for r in range(3):
            G[r, r] += DAMPING * trace
        cholesky(G)
        forward(G, error)
        backward(G, error)
        for k in range(na):
            softened[k] += (J[0, k] * error[0] + J[1, k] * error[1] + J[2, k] * error[2]) / dt
    return softened, arrives


class ContactSource:
    """Contacts with a gap up to the margin, independent of the plan."""

    lands = False  # whether the source changes contacts and demand when feet touch down, see `land`

    def __init__(self, robot: Robot, margin: float, reach: float) -> None:
        """margin: largest gap of a contact that is passed to the prediction [m]
        reach: largest gap of the contacts that the caller must pass to `pick` [m]
        """
        self._places, self._margin, self.reach = robot.spheres, margin, reach

    def reset(self) -> None:
        """Forget earlier contacts."""

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        """Return the contacts that may be passed to the prediction."""
        return contacts.within(self._margin)

    def land(self, at: Kinematics, contacts: ContactSet, demand: Array, ground: Ground) -> tuple[ContactSet, Array, Ground]:
        """Return contacts, demand and ground, changed for the feet that touch down within the period; of sources with `lands`.

        contacts: result of `pick`; demand: joint accelerations [rad/s²] (na)
        """
        raise NotImplementedError

    def missing(self, contacts: ContactSet, schedule: Schedule | None) -> tuple[str, ...]:
        """Return the keys of contacts that are planned to stand but are not among `contacts`."""
        if schedule is None:
            return ()
        return _missing(self._places.keys, schedule.stance.tobytes(), contacts.keys)


@lru_cache(maxsize=1024)
def _missing(places: tuple[str, ...], stands: bytes, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(place for place, is_to_stand in zip(places, stands, strict=True) if is_to_stand and place not in keys)


class Planned(ContactSource):
    """The feet that are planned to stand, with positive gaps set to 0; without a plan, the contacts within the margin."""

    _keys: tuple[str, ...] | None = None  # of the last contacts
    _rows: Array  # their indices among the contact spheres

    def pick(self, contacts: ContactSet, schedule: Schedule | None) -> ContactSet:
        if schedule is None:
            return super().pick(contacts, schedule)
        stands = np.empty(len(contacts.keys), dtype=np.bool_)
        gaps = np.ascontiguousarray(contacts.gaps, np.float64)
        if contacts.keys is not self._keys:
            self._keys, self._rows = contacts.keys, self._places.rows(contacts.keys)
        if _as_planned((schedule.stance,), (self._rows,), (gaps,), (stands,)):
            return contacts
        picked = contacts.take(stands)
        return msgspec.structs.replace(picked, gaps=np.minimum(picked.gaps, 0.0))


@entry((Flags,), (Indices,), (Vector,), written((Flags,)))
def _as_planned(feet: tuple[Array], places: tuple[Array], contacts: tuple[Array], out: tuple[Array]) -> bool:
    """Fill `out`: which contacts are planned to stand or have no contact sphere (n, bool). Return whether this is true for all
    contacts and no gap is positive.

    feet: planned stance of the contact spheres
    places: index of the contact sphere of each contact, −1 without one (n)
    contacts: gaps of the contacts [m] (n)
    """
    (stance,), (rows,), (gaps,), (stands,), touch = feet, places, contacts, out, True
    for i in range(len(stands)):
        stands[i] = rows[i] < 0 or stance[rows[i]]
        touch = touch and stands[i] and gaps[i] <= 0.0
    return touch


class Fused(ContactSource):
    """Contacts within the margin of feet that may stand by the plan; feet that touch down are at rest at the end of the period.

    Stores the last tick's contacts, for hysteresis, and the state of the landing.
    """

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
        """Return contacts, demand and ground: all picked contacts that touch now or within the period."""
        touches, demand = self._landing.anticipate(at, contacts, demand)
        contacts = contacts.take(touches)
        return contacts, demand, reaching(ground, contacts)


def reaching(ground: Ground, contacts: ContactSet) -> Ground:
    """Return the ground with `touching` increased to the largest gap, so that all contacts count as touching."""
    if not len(contacts) or contacts.gaps.max() <= ground.touching:
        return ground
    return msgspec.structs.replace(ground, touching=contacts.gaps.max())


class SourceSettings(Kind, frozen=True):
    """Base of the settings of contact sources."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        """Build the source for the control period `period` [s] on `ground`. Raises ConfigError."""
        raise NotImplementedError


class GeometrySettings(SourceSettings, frozen=True, tag="geometry"):
    """Contact spheres of the robot against the terrain, or the contacts in the state message."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return ContactSource(robot, margin, reach=margin)


class ReportedSettings(SourceSettings, frozen=True, tag="sensed"):
    """Only the contacts in the state message."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return ContactSource(robot, margin, reach=-np.inf)


class PlannedSettings(SourceSettings, frozen=True, tag="planner"):
    """Exactly the feet that are planned to stand; positive gaps count as 0."""

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        return Planned(robot, margin, reach=np.inf)


class FusedSettings(SourceSettings, frozen=True, tag="fused"):
    """Measured contacts of feet that may stand by the plan: from shortly before touchdown until lift-off."""

    release: NonNegative = 0.004  # gap beyond which a contact is released [m]
    early: NonNegative = 0.03  # time before the planned touchdown from which a foot may stand [s]

    def build(self, robot: Robot, margin: float, ground: Ground, period: float) -> ContactSource:
        if not margin <= self.release:
            raise ConfigError("contact.source.release", f"expected ≥ contact.margin = {margin:g}, got {self.release:g}")
        return Fused(self, robot, margin, Landing(robot, ground, period))


AnySource = GeometrySettings | ReportedSettings | PlannedSettings | FusedSettings  # type of `contact.source` in a file


class ContactSettings(Settings, frozen=True):
    """Contacts of a controller, and how gaps are used."""

    source: AnySource = GeometrySettings()  # contact source
    ground: float = 0.0  # height of the ground [m]
    # its shape, as the controller believes it: a gait plans its steps on it, and contacts have its normals and gaps, unless the
    # state message has them
    terrain: AnyTerrain = StandingSettings()
    mu: NonNegative | None = None  # friction coefficient of every contact, instead of those of robot and terrain
    margin: NonNegative = 0.002  # largest gap of a contact that is passed to the prediction [m]
    # whether all corners of a sole count as touching as soon as the robot reports one of them: on soft ground they touch and
    # lift by tenths of a millimetre, and each change moves the forces of the others
    whole_soles: bool = False
