"""Hard problems, each from its number: states far from rest, and contacts that are degenerate."""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np
from scenes import Scene, feet, many_points, with_contacts

from idyn import Robot, load_robot
from idyn.types import Array, ContactSet, State

ROBOTS = ("solo12", "quadruped", "a1", "go2")
FRICTIONS = (0.0, 0.05, 0.3, 0.8, 1.5, 10.0, np.inf)


def wild_scene(seed: int, robots: tuple[Robot, ...] | None = None) -> Scene:
    """Joints ±0.3 rad about the stance, base tilted by ±0.2, speeds 0.5, demands ±50 rad/s², one μ of FRICTIONS, on 1 to 4
    feet or 12 points; half of the gaps are 0, the others up to 2 mm."""
    rng = np.random.default_rng([seed, 2])
    robot = (robots or walkers())[seed % len(ROBOTS)]
    moved = np.r_[np.zeros(3), rng.uniform(-0.2, 0.2, 3), rng.uniform(-0.3, 0.3, robot.na)]
    q = robot.integrate(stance(ROBOTS[seed % len(ROBOTS)]), moved)
    n = int(rng.integers(1, 6))
    contacts = feet(robot, q).take(rng.permutation(4)[: min(n, 4)])
    state = State(q=q, v=0.5 * rng.normal(size=robot.nv))
    scene = Scene(robot=robot, state=state, contacts=contacts, q_ddot=rng.uniform(-50, 50, robot.na))
    scene = many_points(scene, 3) if n == 5 else scene
    gaps = rng.uniform(0, 0.002, len(scene.contacts)) * (rng.uniform(size=len(scene.contacts)) < 0.5)
    return with_contacts(scene, mu=np.full(len(gaps), rng.choice(FRICTIONS)), gaps=gaps)


def torn_scene(seed: int) -> Scene:
    """At rest on four feet without a gap, asked for ±50 rad/s²: feet are dragged against one another."""
    scene = wild_scene(seed)
    contacts = feet(scene.robot, scene.state.q, mu=np.full(4, np.inf))
    state = State(q=scene.state.q, v=np.zeros(scene.robot.nv))
    return msgspec.structs.replace(scene, state=state, contacts=contacts)


def degenerate_scene(seed: int) -> Scene:
    """One of KINDS, in turn; every eleventh is two of them at once."""
    rng = np.random.default_rng([seed, 3])
    kinds = list(KINDS.values())
    turn = seed % (len(kinds) + 1)
    scene = wild_scene(int(rng.integers(2**31)), _light_footed() if turn == len(kinds) - 1 else None)
    chosen = [kinds[turn]] if turn < len(kinds) else [kinds[i] for i in rng.permutation(len(kinds) - 1)[:2]]
    for kind in chosen:
        scene = kind(scene, rng)
    return scene


def kind_of(seed: int) -> str:
    turn = seed % (len(KINDS) + 1)
    return [*KINDS, "two at once"][turn]


@lru_cache(maxsize=1)
def walkers() -> tuple[Robot, ...]:
    return tuple(load_robot(name)[0] for name in ROBOTS)


@lru_cache(maxsize=8)
def stance(name: str) -> Array:
    return load_robot(name)[1]


def _coincident(scene: Scene, rng: np.random.Generator) -> Scene:
    copies = np.sort(rng.integers(0, len(scene.contacts), 2 * len(scene.contacts)))
    return msgspec.structs.replace(scene, contacts=_renamed(scene.contacts.take(copies)))


def _in_a_line(scene: Scene, rng: np.random.Generator) -> Scene:
    c = scene.contacts
    direction = np.array([*rng.normal(size=2), 0.0])
    along = rng.uniform(-0.2, 0.2, (len(c), 1)) * direction / np.linalg.norm(direction)
    return with_contacts(scene, points=c.points.mean(axis=0) + along)


def _on_one_foot(scene: Scene, rng: np.random.Generator) -> Scene:
    c = scene.contacts
    around = rng.uniform(-0.02, 0.02, (len(c), 3)) * [1, 1, 0]
    return with_contacts(scene, bodies=np.full(len(c), c.bodies[0]), points=c.points[0] + around)


def _opposing(scene: Scene, rng: np.random.Generator) -> Scene:
    twice = scene.contacts.take(np.repeat(np.arange(len(scene.contacts)), 2))
    sign = np.tile([1.0, -1.0], len(scene.contacts))[:, None]
    fields = {"normals": sign * twice.normals, "gaps": np.abs(twice.gaps), "radii": np.zeros(len(twice))}
    return msgspec.structs.replace(scene, contacts=_renamed(msgspec.structs.replace(twice, **fields)))


KINDS: dict[str, Callable[[Scene, np.random.Generator], Scene]] = {
    "coincident points": _coincident,
    "feet in a line": _in_a_line,
    "all on one foot": _on_one_foot,
    "opposing normals": _opposing,
    "friction 0 and ∞": lambda scene, rng: with_contacts(scene, mu=rng.choice([0.0, np.inf], len(scene.contacts))),
    "penetration": lambda scene, rng: with_contacts(scene, gaps=rng.uniform(-0.005, 0.0, len(scene.contacts))),
    "gaps of 5 mm and 1 m": lambda scene, rng: with_contacts(scene, gaps=rng.choice([0.0, 0.005, 1.0], len(scene.contacts))),
    "20 m/s": lambda scene, rng: msgspec.structs.replace(scene, state=State(q=scene.state.q, v=20.0 * rng.normal(size=18))),
    "no friction": lambda scene, rng: with_contacts(scene, mu=np.zeros(len(scene.contacts))),
    "feet of 1e-9 of their mass": lambda scene, rng: scene,
}


def _renamed(contacts: ContactSet) -> ContactSet:
    return msgspec.structs.replace(contacts, keys=tuple(f"{key}/{i}" for i, key in enumerate(contacts.keys)))


@lru_cache(maxsize=1)
def _light_footed() -> tuple[Robot, ...]:
    """The walkers with nearly no mass in the links that carry their feet."""
    return tuple(_lighter(robot) for robot in walkers())


def _lighter(robot: Robot) -> Robot:
    """Masses and inertias of the last links of the legs (of those whose name says foot, shank or calf) times 1e-9."""

    def scaled(link: re.Match[str]) -> str:
        numbers = r'((?:mass\s+value|i[xyz][xyz])\s*=\s*")([^"]+)"'
        return re.sub(numbers, lambda m: f'{m[1]}{1e-9 * float(m[2])!r}"', link[0], flags=re.S)

    lowest = r'<link\s+name="[^"]*(?:FOOT|foot|LEG_3|LOWER|calf)[^"]*".*?</link>'
    urdf = re.sub(lowest, scaled, robot.description.urdf, flags=re.S)
    assert urdf != robot.description.urdf
    return robot.variant(urdf=urdf)
