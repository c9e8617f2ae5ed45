"""Terrain settings, and the stance on the terrain."""

import json

import numpy as np
import pytest
from fast import every, first_is_fast

from controllers.build import build_controller, controller_from_snapshot
from controllers.config.loading import parse
from controllers.contact.terrain import AnyTerrain
from controllers.robot.load import load_robot
from controllers.robot.stance import resting
from controllers.settings import ControllerSettings
from idyn.contact.contacts import contacts_from_geometry
from idyn.errors import ConfigError
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller

GROUNDS = {
    "flat": {"kind": "flat"},
    "slope": {"kind": "slope", "angle": 0.15},
    "stairs": {"kind": "stairs", "start": 0.05, "rise": 0.03},
    "heightmap": {"kind": "heightmap", "seed": 5, "friction": {"low": 0.4, "seed": 2}},
}


def ground(name, height=0.0):
    return parse(GROUNDS[name], AnyTerrain, "test").build(height)


@pytest.mark.parametrize("robot_name", first_is_fast(["quadruped", "solo12", "go2"]))
@every("name", sorted(GROUNDS))
def test_all_feet_rest_vertically_below_their_place_in_the_stance(name, robot_name):
    robot, stance = load_robot(robot_name)
    terrain = ground(name, -0.2)
    q = resting(robot, stance, terrain)
    contacts = contacts_from_geometry(robot, q, terrain, margin=1.0)
    assert np.abs(contacts.gaps).max() < 1e-9
    centre = contacts.points + robot.spheres.radii[:, None] * contacts.normals
    before = contacts_from_geometry(robot, stance, ground("flat"), margin=1.0)
    np.testing.assert_allclose(centre[:, :2], before.points[:, :2], atol=1e-9)
    np.testing.assert_array_equal(q[3:7], stance[3:7])
    assert q[:2] == pytest.approx(stance[:2], abs=0)


def test_on_flat_ground_the_stance_is_unchanged():
    robot, stance = load_robot("quadruped")
    assert resting(robot, stance, ground("flat")) is stance


@every("name", ["slope", "stairs", "heightmap"])
@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb", "convex"]))
def test_a_robot_stands_on_every_terrain_with_its_weight_on_its_feet(name, law):
    """The controller finds the same ground as the world: forces as predicted, and vertically they carry the robot."""
    plan = load_plan("stand", 0.05)
    run = run_in_process(
        with_controller(plan, {"law": law, "contact": {"terrain": GROUNDS[name], "ground": 0.3}}), law, lambda *_: None
    )
    assert run.summary.modes == {"ok": 1.0}
    assert run.summary.force_error < 1e-6
    assert run.summary.tracking < 1e-6
    robot, _ = load_robot("quadruped")
    c = contacts_from_geometry(robot, run.trace.q[-1], ground(name, 0.3), margin=0.01)
    across = np.cross(c.normals, c.tangents)
    f = run.trace.simulated[-1]
    total = (f[:, :1] * c.normals + f[:, 1:2] * c.tangents + f[:, 2:] * across).sum(axis=0)
    np.testing.assert_allclose(total, [0, 0, 47.088], atol=1e-6)


def test_a_snapshot_restores_the_terrain():
    settings = parse({"robot": "quadruped", "contact": {"terrain": GROUNDS["heightmap"]}}, ControllerSettings, "test")
    controller = build_controller(settings)
    again = controller_from_snapshot(json.loads(json.dumps(controller.snapshot())))
    first, second = controller.contacts(controller.stance), again.contacts(again.stance)
    assert len(first) == 4
    for field in ("points", "normals", "mu", "gaps"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    assert first.mu.min() >= 0.4


def test_one_friction_for_all():
    settings = parse({"robot": "quadruped", "contact": {"mu": 0.1}}, ControllerSettings, "test")
    controller = build_controller(settings)
    assert (controller.contacts(controller.stance).mu == 0.1).all()


@every(
    ("table", "field"),
    [
        ({"kind": "heightmap", "resolution": 2.0}, "contact.terrain.resolution"),
        ({"kind": "heightmap", "seed": -1}, "contact.terrain.seed"),
        ({"kind": "flat", "friction": {"low": 2.0}}, "contact.terrain.friction"),
        ({"kind": "slope", "friction": {"high": float("inf")}}, "contact.terrain.friction"),
        ({"kind": "stairs", "friction": {"seed": -3}}, "contact.terrain.friction.seed"),
        ({"kind": "hills"}, "contact.terrain.kind"),
        ({"kind": "stairs", "rise": 0}, "contact.terrain.rise"),
        ({"kind": "flat", "bump": 1}, "contact.terrain.bump"),
        ({"friction": {}}, "contact.terrain.kind"),
    ],
)
def test_invalid_terrains_are_refused_by_field(table, field):
    with pytest.raises(ConfigError) as caught:
        parse(table, AnyTerrain, "contact.terrain").build()
    assert str(caught.value).startswith(field + ":")


def test_unreachable_ground_is_an_error():
    robot, stance = load_robot("quadruped")
    steep = parse({"kind": "slope", "angle": 1.1}, AnyTerrain, "test").build()
    with pytest.raises(ConfigError, match=r"contact\.terrain: the legs"):
        resting(robot, stance, steep)
