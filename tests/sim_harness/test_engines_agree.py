"""Engines beside one another under the same law, and `sap` beside other solvers."""

import msgspec
import numpy as np
import pytest
from fast import fast, full

from controllers.config.loading import parse
from sim_harness.scenes.load import load_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_settings import Material
from sim_harness.world.world import Push
from sim_harness.world.worlds import AnyEngine

RIGID = {"lcp": {"kind": "lcp", "edges": 16}, "newton": {"kind": "newton"}}
SOFT = {
    "sap": {"kind": "sap", "candidates": "near", "beta": 1e-3, "sigma": 1e-7},
    "first-order": {"kind": "first-order", "friction": "convex"},
}
"""At the k and d of the scenes: `sap` without what makes it no stiffer than a step allows, both with its convex friction."""


def runs(scene, engines):
    """The scene under each of the engines, every step solved."""
    found = {name: run_scene(scene, parse(engine, AnyEngine, "engine")) for name, engine in engines.items()}
    assert all(run.ok.all() for run in found.values())
    return found


def agree(scene, engines, share, forces=True):
    """Ways and velocities of all bodies, and the mean forces on each, agree to a share of the largest."""
    first, second = runs(scene, engines).values()
    way = [run.centres - run.centres[0] for run in (first, second)]
    rows = [(way[0], way[1]), (first.velocities, second.velocities)]
    if forces:
        rows.append((first.force.mean(axis=0), second.force.mean(axis=0)))
    off = [np.abs(a - b).max() / max(np.abs(a).max(), 1e-9) for a, b in rows]
    print(f"{scene.about}: ways, velocities, forces differ by {', '.join(f'{100 * x:.3g} %' for x in off)}")
    assert max(off) < share


@pytest.mark.parametrize(
    "name", fast(["sliding-block", "ramp-slides", "ramp-friction", "slips", "rolls", "grasp-ball-slips"], "ramp-friction")
)
def test_lcp_of_sixteen_edges_and_newton_agree_where_bodies_slide(name):
    agree(load_scene(name), RIGID, 0.01)


@full
@pytest.mark.parametrize("turn", [0.0, 0.1, 0.2, np.pi / 16])
def test_lcp_of_sixteen_edges_and_newton_agree_in_every_direction_of_sliding(turn):
    """Between its edges a polygon has up to 1 − cos(π/16) = 1.9 % less friction: the distance is longer by up to that."""
    scene = load_scene("sliding-block")
    (block,) = scene.body
    speed = block.velocity[0]
    body = msgspec.structs.replace(block, velocity=(speed * np.cos(turn), speed * np.sin(turn), 0.0))
    first, second = runs(msgspec.structs.replace(scene, body=(body,)), RIGID).values()
    way = [np.linalg.norm(run.centres[-1, 0] - run.centres[0, 0]) for run in (first, second)]
    print(f"{np.degrees(turn):.1f} degrees: {way[0]:.5f} m under lcp, {way[1]:.5f} m under newton")
    assert 1.0 - 1e-9 <= way[0] / way[1] <= 1.001 / np.cos(np.pi / 16)
    if turn == 0.0:
        assert way[0] == pytest.approx(way[1], rel=1e-6)


@full
@pytest.mark.parametrize(("share", "slips"), [(0.99, False), (0.999, False), (1.001, True), (1.01, True)])
def test_lcp_of_sixteen_edges_and_newton_agree_on_the_onset_of_slip(share, slips):
    """A slope of a share of atan μ: friction is along an edge of the polygon, so both break away at the same angle."""
    scene = load_scene("ramp-slides", 0.5)
    ground = msgspec.structs.replace(scene.ground, slope=share * np.arctan(0.5))
    found = runs(msgspec.structs.replace(scene, ground=ground), RIGID)
    ways = [float(run.centres[-1, 0, 0] - run.centres[0, 0, 0]) for run in found.values()]
    assert [abs(way) > 1e-9 for way in ways] == [slips, slips]
    assert ways[0] == pytest.approx(ways[1], rel=0.01, abs=1e-9)


SOFTNESS = Material(mu=0.5, stiffness=2e4, dissipation=0.02)


@full
@pytest.mark.parametrize("name", ["sliding-block", "ramp-slides", "ramp-sticks", "drop", "cube-on-corners", "patches"])
def test_sap_and_first_order_agree_at_equal_stiffness_and_dissipation(name):
    scene = load_scene(name)
    bodies = tuple(msgspec.structs.replace(body, material=Material(mu=SOFTNESS.mu)) for body in scene.body)
    ground = msgspec.structs.replace(scene.ground, material=SOFTNESS)
    agree(msgspec.structs.replace(scene, body=bodies, ground=ground), SOFT, 0.01)


@pytest.mark.parametrize("name", fast(["pendulum-soft-stop", "elastic-strip", "elastic-foundation"], "elastic-foundation"))
def test_sap_and_first_order_agree_on_compliant_rows(name):
    agree(load_scene(name), SOFT, 0.01, forces=name == "elastic-foundation")


WEIGHT = 2.0 * 9.81
SMALL = 1e-4
"""[s]"""


def compliant(make_block, engine, stiffness, dissipation, mu=0.5):
    """The block on the same springs and dampers under either engine."""
    if engine == "penalty":
        return make_block("penalty", mu=mu, kp=stiffness, kv=stiffness * dissipation, slip_speed=1e-4)
    return make_block("sap", mu=mu, stiffness=stiffness, dissipation=dissipation)


@full
@pytest.mark.parametrize("dissipation", [1e-3, 1e-2])
def test_sap_and_penalty_agree_on_a_landing(make_block, dissipation):
    """A drop from 10 mm: the forces of the first 0.2 s, bounces and all, to 2 % of the largest."""
    forces = {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 5e3, dissipation)
        world.reset(world.q + np.array([0, 0, 0.01, 0, 0, 0, 0]))
        forces[engine] = np.array([world.step(np.zeros(0), SMALL).normal_force.sum() for _ in range(2000)])
    peak = forces["penalty"].max()
    assert peak > 3 * WEIGHT
    touching = (forces["sap"] > 0) & (forces["penalty"] > 0)
    assert np.count_nonzero((forces["sap"] > 0) != (forces["penalty"] > 0)) < 10
    assert np.abs(forces["sap"] - forces["penalty"])[touching].max() < 0.02 * peak


@full
def test_sap_and_penalty_agree_on_a_slide(make_block):
    """1 m/s to rest: way, and the load of the feet while it slides, to 2 %."""
    way, load = {}, {}
    for engine in ("sap", "penalty"):
        world = compliant(make_block, engine, 2e4, 2e-4)
        q = world.q.copy()
        q[2] -= WEIGHT / 4 / 2e4
        world.reset(q, np.array([1.0, 0, 0, 0, 0, 0]))
        forces = np.array([world.step(np.zeros(0), SMALL).normal_force for _ in range(3000)])
        assert abs(world.v[0]) < 1e-3
        way[engine], load[engine] = world.q[0], forces[500:1500].mean(axis=0)
    assert way["sap"] == pytest.approx(way["penalty"], rel=0.02)
    assert way["sap"] == pytest.approx(1.0 / (2 * 0.5 * 9.81), rel=0.02)
    np.testing.assert_allclose(load["sap"], load["penalty"], rtol=0.02)


def slip_onset(world):
    """The force along x, raised slowly at the height of the ground, at which the block leaves [N]."""
    for force in np.linspace(0.8, 1.2, 401) * 0.5 * WEIGHT:
        push = Push(frame="block", force=(force, 0.0, 0.0), point=(0.0, 0.0, -0.05))
        for _ in range(5):
            assert world.step(np.zeros(0), 1e-3, [push]).status.ok
        if world.v[0] > 1e-3:
            return force
    raise AssertionError("it never slips")


def test_sap_near_rigid_and_lcp_slip_at_the_same_force(make_block):
    rigid = slip_onset(make_block("lcp", edges=16))
    near_rigid = slip_onset(make_block("sap", stiffness=np.inf, dissipation=1e-3))
    assert near_rigid == pytest.approx(rigid, rel=0.01)
    assert near_rigid == pytest.approx(0.5 * WEIGHT, rel=0.01)
