"""What the rigid engines hold by friction stays where it is, with steady forces: grips, piles, collisions of hinged bodies."""

from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fast import full

from idyn.status import Status
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.scenes.load import check_scene, engine_named, load_scene
from sim_harness.scenes.scene_settings import (
    BodySettings,
    ForceSettings,
    GroundSettings,
    JointSettings,
    Material,
    SceneSettings,
    Shape,
)
from sim_harness.world.worlds import build_scene

G, DT = 9.81, 1e-3
RIGID = pytest.mark.parametrize("engine", ["lcp", "newton"])
SHARED = Path(__file__).parents[2].parent / "shared" / "cases" / "engines"
needs_cases = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared cases are not beside the project")


def scene(*bodies, **settings):
    return check_scene(SceneSettings(about="", engines=("lcp", "newton"), dt=DT, duration=1.0, body=bodies, **settings))


def grip(seed):
    """A box in a grip of 16 to 30 N that could carry three to eleven times its weight: of random size, place and turn."""
    rng = np.random.default_rng(seed)
    thick, force, material = rng.uniform(0.01, 0.05), rng.uniform(16.0, 30.0), Material(mu=0.6)
    slide = (JointSettings(kind="slide", axis=(1.0, 0.0, 0.0)),)
    pad, away = Shape(box=(0.02, 0.03, 0.04)), thick / 2 + 0.01
    held = BodySettings(
        name="held",
        shape=Shape(box=(thick, *rng.uniform(0.03, 0.08, 2))),
        mass=rng.uniform(0.1, 0.6),
        position=(0.0, *rng.uniform(-3e-3, 3e-3, 2)),
        turn=(rng.normal() if seed % 2 else 0.0, 0.0, 0.0),
        material=material,
    )
    pads = [
        BodySettings(name=name, shape=pad, mass=0.1, position=(x, 0.0, 0.0), material=material, joint=slide)
        for name, x in (("left", -away), ("right", away))
    ]
    return scene(pads[0], held, pads[1], force=tuple(
        ForceSettings(body=name, force=(push, 0.0, 0.0)) for name, push in (("left", force), ("right", -force))
    ))  # fmt: skip


def pile(seed):
    """Three boxes on one another, a little askew, at rest."""
    rng = np.random.default_rng(seed)
    boxes = [
        BodySettings(
            name=f"box-{i}",
            shape=Shape(box=(0.2, 0.2, 0.1)),
            mass=1.0 + i,
            position=(*rng.uniform(-0.03, 0.03, 2), 0.05 + 0.1 * i),
            turn=(0.0, 0.0, 0.2 * rng.normal()),
        )
        for i in range(3)
    ]
    return scene(*boxes, ground=GroundSettings())


def followed(settings, engine, steps, settled=0):
    """Simulate; statuses, centres at both ends [m], and the largest change of a contact's force after `settled` steps [N]."""
    world, statuses, forces = build_scene(settings, engine_named(settings, engine)), [], defaultdict(list)
    start = world.bodies.place(world.q)[1].copy()
    for k in range(steps):
        step = world.step()
        statuses.append(step.status)
        if k >= settled:
            for key, force in zip(step.contacts.keys, step.force, strict=True):
                forces[key].append(force)
    change = max((np.ptp(each, axis=0).max() for each in forces.values()), default=0.0)
    return statuses, start, world.bodies.place(world.q)[1], change


@RIGID
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=full) for k in range(3, 20))])
def test_a_gripped_box_does_not_slip_and_its_forces_are_steady(engine, seed):
    statuses, start, end, change = followed(grip(seed), engine, 500, settled=100)
    assert set(statuses) == {Status.SOLVED}
    assert np.abs(end - start).max() < 1e-6
    assert change < 1e-3


@RIGID
def test_forces_in_a_pile_at_rest_are_steady(engine):
    for seed in range(3):
        statuses, start, end, change = followed(pile(seed), engine, 200, settled=50)
        assert set(statuses) == {Status.SOLVED}
        assert np.abs(end - start).max() < 1e-6
        assert change < 1e-2


@RIGID
def test_four_corners_share_a_load_off_the_centre_as_evenly_as_they_can(engine):
    """Three equations for four normal impulses: the least Σ w p² with the corners' inverse masses w."""
    mass, inertia, load = 2.0, 0.02, (0.02, 0.03)
    x, y = np.array([[0.1, 0.1, -0.1, -0.1], [0.15, -0.15, 0.15, -0.15]])
    # velocities: height of the centre of mass at `load`, and rates at which points along x and y rise
    normals = np.column_stack([np.ones(4), x - load[0], y - load[1]])
    J = np.zeros((12, 3))
    J[2::3] = normals
    M, h = np.diag([mass, inertia, inertia]), np.array([mass * G, 0.0, 0.0])
    problem = ForwardProblem(
        M=M, h=h, v=np.zeros(3), J=J, force=np.zeros(3), mu=np.full(4, 0.5), gaps=np.zeros(4), dt=DT
    )  # fmt: skip
    solution = {"lcp": PolygonLcp(), "newton": Newton()}[engine].solve(problem)
    root = np.sqrt(np.einsum("ij,j,ij->i", normals, 1.0 / np.diag(M), normals))
    known = np.linalg.lstsq(normals.T / root, DT * h, rcond=None)[0] / root
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.p[:, 2], known, rtol=5e-3)
    assert np.abs(solution.v_plus).max() < 1e-9


def between_walls(gap):
    """A block of 1 kg between two walls that its sides touch with a gap [m]; a step from rest."""
    to_left, to_right = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0.0]]), np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0.0]])
    return ForwardProblem(
        M=np.eye(3),
        h=np.array([0.0, 0.0, G]),
        v=np.zeros(3),
        J=np.vstack([to_left, to_right]),
        force=np.zeros(3),
        mu=np.full(2, 0.5),
        gaps=np.full(2, gap),
        dt=DT,
    )


def test_a_step_without_a_solution_still_holds():
    """Walls closer than the block is wide: it cannot leave both. The contacts press and hold its weight all the same."""
    solution = PolygonLcp().solve(between_walls(-1e-4))
    assert solution.status is Status.NOT_CERTIFIED
    assert solution.contact == pytest.approx(PolygonLcp().recovery)
    assert (solution.p[:, 2] > G * DT).all()
    assert np.abs(solution.v_plus).max() < 1e-2 * G * DT
    free = PolygonLcp().solve(between_walls(0.0))
    assert free.status is Status.SOLVED
    assert free.v_plus[2] == pytest.approx(-G * DT)


def hinged(masses):
    """A raised box on a hinge swings into one that hangs."""
    boxes = [
        BodySettings(
            name=name,
            shape=Shape(box=(0.16, 0.12, 0.5)),
            mass=mass,
            position=(x, 0.0, -0.25),
            joint=(JointSettings(kind="hinge", axis=(0.0, 1.0, 0.0), anchor=(x, 0.0, 0.0), start=start),),
        )
        for name, x, mass, start in (("raised", -0.09, masses[0], 0.9), ("hanging", 0.09, masses[1], 0.0))
    ]
    return scene(*boxes)


@pytest.mark.parametrize(
    "masses", [(100.0, 1.0), pytest.param((1.0, 100.0), marks=full), pytest.param((150.0, 1.5), marks=full)]
)
def test_hinged_boxes_collide_as_under_newton(masses):
    ends = []
    for engine in ("lcp", "newton"):
        statuses, _, end, _ = followed(hinged(masses), engine, 2000)
        assert set(statuses) == {Status.SOLVED}
        ends.append(end)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)


def case(name, **changes):
    return msgspec.structs.replace(load_scene(str(SHARED / name)), **changes)


@needs_cases
@full
@RIGID
@pytest.mark.parametrize("dt", [1e-3, 2e-3])
def test_the_shared_pinched_box_hangs_still(engine, dt):
    statuses, start, end, change = followed(case("pinched-box-lcp.toml", dt=dt), engine, 1500, settled=300)
    assert set(statuses) == {Status.SOLVED}
    assert np.abs(end - start).max() < 1e-6
    assert change < 1e-3


@needs_cases
@full
def test_the_shared_hinged_boxes_are_solved_in_each_step():
    ends = []
    for engine in ("lcp", "newton"):
        statuses, _, end, _ = followed(case("hinged-boxes-ray.toml"), engine, 4000)
        assert set(statuses) == {Status.SOLVED}
        ends.append(end)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)


@needs_cases
@full
@RIGID
def test_the_shared_thin_box_has_steady_forces(engine):
    statuses, _, _, change = followed(case("thin-box-newton-forces.toml"), engine, 1000, settled=300)
    assert set(statuses) == {Status.SOLVED}
    assert change < 1e-3
