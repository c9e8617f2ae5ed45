"""Robots, states and contacts of the tests: the shipped walkers, an arm, and small mechanisms written out here."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pytest
import urdf
from fast import first_is_fast

from idyn import Batch, Description, Flat, Ground, Options, Robot, contacts_from_geometry, load_robot, predict
from idyn.batch.arrays import TOUCH
from idyn.laws.law import Law
from idyn.terms.dynamics import evaluate
from idyn.terms.reduction import Reduced, reduce
from idyn.terms.stages import ReducedProblem
from idyn.types import Array, Consistency, ContactSet, Guess, Prediction, Record, Selection, State

DT = 1e-3
WALKERS = ("solo12", "quadruped")
each_walker = pytest.mark.parametrize("name", first_is_fast(WALKERS))
LITERAL = Ground.rigid(noise=0.0, recovery_speed=np.inf)  # gaps as they are: allowance φ/dt

PLAIN = Options.paper(selection=Selection.OFF, consistency=Consistency.OFF, ground=LITERAL)  # nothing but the law
VARIANTS = {  # points of each foot, and friction coefficients of which each has one; None: as the scene has them
    "few feet": (1, None),
    "twelve points": (3, None),
    "some frictionless": (1, (0.0, 0.6)),
    "some unlimited": (1, (0.3, np.inf)),
    "all kinds": (1, (0.0, 0.3, 1.0, np.inf)),
}


class Scene(Record, frozen=True):
    """One prediction's input."""

    robot: Robot
    state: State
    contacts: ContactSet
    q_ddot: Array


@lru_cache(maxsize=8)
def walker(name: str) -> tuple[Robot, Array]:
    return load_robot(name)


@lru_cache(maxsize=8)
def limitless(name: str) -> Robot:
    """The same robot with motors that can do anything."""
    robot, _ = walker(name)
    return robot.variant(tau_max=dict.fromkeys(robot.joint_names, np.inf))


def near_stance(name: str, seed: int = 0, spread: float = 0.0, speed: float = 0.0) -> tuple[Robot, State, ContactSet, Any]:
    """A robot with all its contacts touching at a random state near its stance, and the generator."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(seed)
    q = robot.integrate(stance, spread * rng.normal(size=robot.nv))
    return robot, State(q=q, v=speed * rng.normal(size=robot.nv)), feet(robot, q), rng


def batch_of(scenes: Sequence[Scene], **more: Any) -> Batch:
    """The scenes as arrays; the contacts get the names of the first one's. more: further fields"""
    touch = {name: np.array([getattr(scene.contacts, name) for scene in scenes]) for name in TOUCH}
    state = State(q=np.array([scene.state.q for scene in scenes]), v=np.array([scene.state.v for scene in scenes]))
    contacts = ContactSet(**touch, keys=scenes[0].contacts.keys)
    return Batch(state=state, contacts=contacts, q_ddot=np.array([scene.q_ddot for scene in scenes]), **more)


def feet(robot: Robot, q: Array, **changes: object) -> ContactSet:
    """All contact places of the robot against the plane, whatever their distance, with some fields replaced."""
    contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
    return msgspec.structs.replace(contacts, **{"gaps": np.zeros(len(contacts)), **changes})


def standing_scene(name: str, mu: float = 0.6, n: int = 4) -> Scene:
    """At rest in the stance, asked to stay."""
    robot, q = walker(name)
    contacts = feet(robot, q, mu=np.full(4, mu)).take(np.arange(n))
    return Scene(robot=robot, state=State(q=q, v=np.zeros(robot.nv)), contacts=contacts, q_ddot=np.zeros(robot.na))


def random_scene(name: str, seed: int, *, touching: float = 0.5, mu: float | None = None, n: int | None = None) -> Scene:
    """A state about the stance: joints ±0.05 rad, base tilted as much, speeds 0.2, demands 30 rad/s², μ ∈ {0.1, 0.6, 1.5},
    1 to 4 feet, gaps of 0 to 2 mm of which the share `touching` is exactly 0."""
    rng = np.random.default_rng([seed, WALKERS.index(name)])
    robot, stance = walker(name)
    q = robot.integrate(stance, np.r_[np.zeros(3), rng.uniform(-0.05, 0.05, robot.nv - 3)])
    v = 0.2 * rng.normal(size=robot.nv)
    n = int(rng.integers(1, 5)) if n is None else n
    gaps = rng.uniform(0, 0.002, 4) * (rng.uniform(size=4) >= touching)
    contacts = feet(robot, q, mu=np.full(4, rng.choice([0.1, 0.6, 1.5]) if mu is None else mu), gaps=gaps)
    chosen = rng.permutation(4)[:n]
    demand = 30 * rng.normal(size=robot.na)
    return Scene(robot=robot, state=State(q=q, v=v), contacts=contacts.take(chosen), q_ddot=demand)


def random_scenes(name: str, count: int, **settings: Any) -> Iterator[Scene]:
    return (random_scene(name, seed, **settings) for seed in range(count))


def with_contacts(scene: Scene, **fields: object) -> Scene:
    """The scene with some fields of its contacts replaced."""
    return msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, **fields))


def reduced(scene: Scene, ground: Ground = LITERAL) -> tuple[Reduced, ReducedProblem]:
    """The reduced problem of a scene: its numbers, and the record that kernels read."""
    problem = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=ground)
    return reduce(problem, scene.q_ddot), problem


def predict_scene(
    scene: Scene, law: Law | str, options: Options = PLAIN, guess: Guess | None = None, dt: float = DT, **more: Any
) -> Prediction:
    """The prediction for a scene. more: fields of the scene that are replaced, and further arguments of `predict`"""
    scene = msgspec.structs.replace(scene, **{field: more.pop(field) for field in Scene.__struct_fields__ if field in more})
    args = scene.robot, scene.state, scene.contacts, scene.q_ddot
    return predict(*args, law=law, dt=dt, options=options, guess=guess, **more)


def varied(name: str, variant: tuple[int, tuple[float, ...] | None], count: int) -> Iterator[Scene]:
    """Random scenes of a walker with contacts as VARIANTS has them."""
    points, mu = variant
    for seed in range(count):
        scene = many_points(random_scene(name, seed, n=4 if points > 1 else None), points)
        if mu is not None:
            chosen = np.random.default_rng(seed).choice(mu, len(scene.contacts))
            scene = msgspec.structs.replace(scene, contacts=msgspec.structs.replace(scene.contacts, mu=chosen))
        yield scene


def many_points(scene: Scene, per_foot: int) -> Scene:
    """Each contact split into `per_foot` points a centimetre about it: redundant contacts of one rigid foot."""
    c = scene.contacts
    angles = 2 * np.pi * np.arange(per_foot) / per_foot
    copies = np.repeat(np.arange(len(c)), per_foot)
    t = np.cross(c.normals, c.tangents)
    ring = np.tile(np.column_stack([np.cos(angles), np.sin(angles)]), (len(c), 1)) * 0.01
    split = c.take(copies)
    points = split.points + ring[:, :1] * c.tangents[copies] + ring[:, 1:] * t[copies]
    keys = tuple(f"{key}.{i % per_foot}" for i, key in enumerate(split.keys))
    return msgspec.structs.replace(scene, contacts=msgspec.structs.replace(split, points=points, keys=keys))


def turned(contacts: ContactSet, angle: float | Array) -> ContactSet:
    """The same contacts with the tangents turned about the normals [rad]."""
    cosine, sine = np.atleast_1d(np.cos(angle))[:, None], np.atleast_1d(np.sin(angle))[:, None]
    t = np.cross(contacts.normals, contacts.tangents)
    return msgspec.structs.replace(contacts, tangents=cosine * contacts.tangents + sine * t)


def _slide(name: str, parent: str, child: str, axis: str, x: float = 0.0) -> str:
    return urdf.joint(name, parent, child, axis=axis, at=(x, 0, 0), kind="prismatic", limits=(-1, 1, 100, 10))


FINGERS = urdf.robot(  # two motor-driven fingers along x, and between them a free box on three unactuated slides
    "fingers",
    *[urdf.link("palm"), urdf.link("left", 0.2, 1e-4), urdf.link("right", 0.2, 1e-4), urdf.link("rail_x", 1e-3, 1e-7)],
    *[urdf.link("rail_y", 1e-3, 1e-7), urdf.link("box", 0.5, 8e-4), _slide("left", "palm", "left", "1 0 0", -0.05)],
    *[_slide("right", "palm", "right", "1 0 0", 0.05), _slide("box_x", "palm", "rail_x", "1 0 0")],
    *[_slide("box_y", "rail_x", "rail_y", "0 1 0"), _slide("box_z", "rail_y", "box", "0 0 1")],
)


def fingers_scene(q_ddot: tuple[float, float], mu: float = 0.8) -> Scene:
    """The box of 0.1 m between the fingers, touched by both: a positive `left` and a negative `right` squeeze it."""
    robot = Robot(Description(urdf=FINGERS, base="fixed", unactuated=("box_x", "box_y", "box_z")))
    names = [robot.joint_of_frame(name) for name in ("left", "right", "box")]
    contacts = ContactSet(
        bodies=np.array([names[2], names[2]]),
        others=np.array([names[0], names[1]]),
        points=np.array([[-0.05, 0.0, 0.0], [0.05, 0.0, 0.0]]),
        normals=np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]),
        tangents=np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        mu=np.full(2, mu),
        gaps=np.zeros(2),
        radii=np.zeros(2),
        keys=("left", "right"),
    )
    state = State(q=np.zeros(5), v=np.zeros(5))
    return Scene(robot=robot, state=state, contacts=contacts, q_ddot=np.array(q_ddot, dtype=float))
