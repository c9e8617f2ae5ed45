"""Engines beside one another under the same law, and `sap` beside other solvers."""

import msgspec
import numpy as np
import pytest
from fast import fast, full

from controllers.config.loading import parse
from sim_harness.scenes.load import load_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_settings import Material
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
