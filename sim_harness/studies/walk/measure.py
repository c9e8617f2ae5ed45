"""What the study of a walking person measures: both ways of finding forces, halves, and sensitivities."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from idyn.explain.distribution import Distribution
from idyn.explain.explanation import WALKING, Explanation, Settings, concluded, explain, paced_motion, shared
from idyn.explain.floor import find_floor
from idyn.explain.frames import frames_of, motion_of
from idyn.explain.predicted import Softness, predict_forces
from idyn.explain.soles import Soles, feet_of
from idyn.motion.smoothing import Filter
from idyn.types import Array
from sim_harness.studies.walk.person import Person
from sim_harness.studies.walk.scores import Score, score

SHARES = (0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3)
"""Softness ρ that is tried on one half of the frames, and judged on the other."""


class Found(NamedTuple):
    """Forces found in the motion of a person.

    explained, predicted: from motion alone; given: the plates' sum, shared by the same rule
    plates: the measured forces themselves, with OpenSim's filter, for joint moments and residuals
    """

    explained: Explanation
    predicted: Explanation
    given: Explanation
    plates: Explanation


def find_all(person: Person) -> Found:
    """Return the forces of a person's motion."""
    walker, motion_table = person.walker, person.motion
    motion, _ = paced_motion(walker, motion_table, None, WALKING)
    feet = feet_of(walker.robot, Soles())
    frames = frames_of(walker.robot, walker.coordinates.root, feet, motion)
    floor = find_floor(frames, motion.time)
    ground = walker.coordinates.ground
    world = np.concatenate([person.wrenches[..., :3] @ ground.T, person.wrenches[..., 3:] @ ground.T], axis=-1)
    given = shared(frames._replace(required=world.sum(axis=0)), floor, Distribution())
    as_opensim = motion_of(motion_table, walker.coordinates, Filter())
    exact = frames_of(walker.robot, walker.coordinates.root, feet, as_opensim)
    return Found(
        explained=explain(walker, motion_table),
        predicted=predict_forces(walker, motion_table),
        given=concluded(walker, motion, frames, given, floor),
        plates=concluded(walker, as_opensim, exact, world.transpose(1, 0, 2), floor),
    )


class Half(NamedTuple):
    """Vertical score of the predicted sum on the first half, the second half, and all judged frames, by the range of all."""

    first: Score
    second: Score
    all: Score


def halves(person: Person, found: Explanation) -> Half:
    """Return the vertical scores of the sum of both feet on the halves of the judged frames."""
    frames = np.arange(len(person.motion.time))[person.judged]
    span = float(np.ptp(person.total[frames, 1]))
    total = found.wrenches[..., 1].sum(axis=0)
    parts = (frames[: len(frames) // 2], frames[len(frames) // 2 :], frames)
    return Half(*(score(total[part], person.total[part, 1], person.walker.robot.weight, span) for part in parts))


def softness_half(person: Person, share: float) -> Half:
    """Return `halves` of a prediction with softness ρ = share."""
    return halves(person, predict_forces(person.walker, person.motion, Softness(share=share)))


class Sensitivity(NamedTuple):
    """Scores of one change: of the sum, vertical, fore-aft, mediolateral; per foot, the worse one, vertical and fore-aft."""

    vertical: Score
    fore_aft: Score
    mediolateral: Score
    foot_vertical: Score
    foot_fore_aft: Score


def sensitivity(person: Person, found: Explanation) -> Sensitivity:
    """Return the scores of forces, see `Sensitivity`."""
    weight, total = person.walker.robot.weight, found.wrenches.sum(axis=0)
    sums = [score(total[person.judged, i], person.total[person.judged, i], weight) for i in (1, 0, 2)]
    feet = [
        max((per_foot(person, found, foot, i) for foot in range(len(found.feet))), key=lambda each: each.range) for i in (1, 0)
    ]
    return Sensitivity(*sums, *feet)


def per_foot(person: Person, found: Explanation, foot: int, component: int) -> Score:
    """Return the score of one foot while it stands."""
    at = person.stands(foot)
    return score(found.wrenches[foot, at, component], person.wrenches[foot, at, component], person.walker.robot.weight)


Change = Callable[[Person], Explanation]


def _explained(**changes: object) -> Change:
    """Return a change of settings. changes: fields of `Settings`, or of its distribution"""
    own = {name: value for name, value in changes.items() if name in Settings.__struct_fields__}
    rest = {name: value for name, value in changes.items() if name not in own}
    settings = msgspec.structs.replace(Settings(), **own, distribution=msgspec.structs.replace(Distribution(), **rest))
    return lambda person: explain(person.walker, person.motion, settings)


def _predicted(filter: Filter | None = None, mu: float = 0.8, **softness: float) -> Change:
    """Return a change of predicted forces. softness: fields of `Softness`"""
    settings = Settings(filter=filter, distribution=Distribution(mu=mu))
    return lambda person: predict_forces(person.walker, person.motion, Softness(**softness), settings)


def _heavier(way: Change, factor: float) -> Change:
    """Return the forces of a body whose masses and inertias are all `factor` times as large: they are proportional."""

    def change(person: Person) -> Explanation:
        found = way(person)
        return found._replace(wrenches=factor * found.wrenches)

    return change


def _surface(offset: float) -> Change:
    """Return the forces with the floor `offset` [m] above the plates."""
    return lambda person: explain(person.walker, person.motion, Settings(floor=person.surface + offset))


def _wider(factor: float) -> Change:
    soles = Soles()
    wide = msgspec.structs.replace(soles, width=tuple(factor * each for each in soles.width))
    return _explained(soles=wide)


CHANGES: dict[str, Change] = {
    "as it is (at this cadence 5 Hz, order 2)": _explained(),
    "filter: OpenSim's, 6 Hz, order 3": _explained(filter=Filter()),
    **{
        f"filter: {cutoff:g} Hz, order 2": _explained(filter=Filter(cutoff=cutoff, order=2))
        for cutoff in (3.0, 4.0, 6.0, 8.0, 10.0, 15.0)
    },
    "filter: none": _explained(filter=Filter(cutoff=np.inf)),
    "mass 5 % less": _heavier(_explained(), 0.95),
    "mass 5 % more": _heavier(_explained(), 1.05),
    **{f"friction {mu:g}": _explained(mu=mu) for mu in (0.2, 0.4, 1.2)},
    "friction pyramid of 4 edges": _explained(edges=4),
    **{f"weight κ along the line to the centre of mass: {along:g}": _explained(along=along) for along in (0.0, 0.2, 0.7, 1.0)},
    "points up to 2 cm at any speed": _explained(height=0.02, speed=1e3),
    "points up to 8 cm, 1 m/s": _explained(height=0.08, speed=1.0),
    "softness does not fade with height": _explained(fade=np.inf),
    "softness fades within 5 mm": _explained(fade=0.005),
    "floor as high as the plates": _surface(0.0),
    "floor 1 cm above the plates": _surface(0.01),
    "floor 2 cm below the plates": _surface(-0.02),
    "soles half as wide": _wider(0.5),
    "soles twice as wide": _wider(2.0),
}
"""Name → forces under a changed setting."""


LAWS: dict[str, Change] = {
    "as it is (soft, preloaded, ρ = 0.03)": _predicted(),
    "nearly rigid: ρ = 0.0001": _predicted(share=1e-4),
    "soft: ρ = 0.3": _predicted(share=0.3),
    "equally stiff at all heights": _predicted(fade=np.inf),
    "equally stiff at all speeds": _predicted(slip=1e3),
    "friction 0.4": _predicted(mu=0.4),
    "filter of explained forces, 5 Hz, order 2": _predicted(WALKING),
    "forces as predicted, not smoothed": _predicted(smooth=np.inf),
    "mass 5 % less": _heavier(_predicted(), 0.95),
    "mass 5 % more": _heavier(_predicted(), 1.05),
}
"""Name → predicted forces under another contact model, filter or mass."""


def constant_weight(person: Person) -> Array:
    """Return the weight as the force of both feet in all frames [N] (T, 3): what is known without the motion."""
    return np.tile([0.0, person.walker.robot.weight, 0.0], (len(person.motion.time), 1))
