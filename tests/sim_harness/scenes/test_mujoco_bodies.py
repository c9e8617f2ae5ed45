"""Scenes in MuJoCo compared with our worlds, and unsupported parts."""

import numpy as np
import pytest
from fast import every, full

from idyn.errors import ConfigError
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.scenes.load import check_scene, load_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_settings import (
    BodySettings,
    ClosureSettings,
    ForceSettings,
    JointSettings,
    Material,
    SceneSettings,
    Shape,
)
from sim_harness.world.worlds import build_scene

CUBE, BAR = Shape(box=(0.1, 0.1, 0.1)), Shape(box=(0.3, 0.02, 0.02))
STIFF = MujocoSettings(ground="stiff")


def scene(*bodies, **settings):
    base = {"about": "", "engines": ("lcp",), "dt": 1e-3, "duration": 0.2}
    return check_scene(SceneSettings(body=bodies, **base | settings))


def both(settings, engine=STIFF):
    return run_scene(settings, PolygonLcp()), run_scene(settings, engine)


@full
@pytest.mark.parametrize("kind", ["pin", "weld"])
def test_two_welded_free_bodies_fly_as_in_our_worlds(kind):
    one = BodySettings(name="one", shape=CUBE, mass=1.0, position=(0.0, 0.2, 0.3), turn=(0.1, 0.2, 0.3))
    other = BodySettings(name="other", shape=CUBE, mass=2.0, position=(0.2, 0.2, 0.3), turn=(0.3, 0.1, 0.2))
    push = ForceSettings(body="other", force=(3.0, 5.0, 2.0), duration=0.1)
    tie = ClosureSettings(kind=kind, bodies=("one", "other"), at=(0.1, 0.2, 0.3))
    ours, theirs = both(scene(one, other, closure=(tie,), force=(push,), gravity=0.0))
    assert np.linalg.norm(ours.centres[-1] - ours.centres[0], axis=1).min() > 0.003
    np.testing.assert_allclose(theirs.centres[-1], ours.centres[-1], atol=1e-3)
    assert theirs.residuals[:, 0].max() < 1e-10


@full
def test_springs_dampers_and_stops_act_as_in_our_worlds():
    joint = JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0, 0, 0), start=0.2, stiffness=3.0, rest=-0.4, damping=0.1)
    bar = BodySettings(name="bar", shape=BAR, mass=1.0, position=(0.15, 0.0, 0.0), joint=(joint,))
    ours, theirs = both(scene(bar, duration=0.5))
    np.testing.assert_allclose(theirs.q[-1], ours.q[-1], atol=2e-3)
    assert theirs.residuals[:, 0].max() < 1e-10
    stopped = BodySettings(
        name="bar",
        shape=BAR,
        mass=1.0,
        position=(0.15, 0.0, 0.0),
        joint=(JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0, 0, 0), stop=(-1.0, 0.2)),),
    )
    ours, theirs = both(scene(stopped, duration=1.0))
    assert ours.q[-1, 0] == pytest.approx(0.2, abs=1e-3)
    assert theirs.q[-1, 0] == pytest.approx(0.2, abs=5e-3)


def test_inclined_gravity_and_forces_act_as_in_our_worlds():
    """The same direction and acceleration along a slope, while MuJoCo's softer ground takes the cylinder in."""
    ours, theirs = both(load_scene("slips", 0.1))
    np.testing.assert_allclose(theirs.velocities[-1, 0, :2], ours.velocities[-1, 0, :2], atol=5e-3)


@every(
    ("body", "dt", "field"),
    [
        (BodySettings(name="a", shape=CUBE, mass=1.0, material=Material(stiffness=1e4)), 1e-3, r"body\[0\].material.stiffness"),
        (BodySettings(name="a", shape=CUBE, mass=1.0), 5e-3, "engine.timestep"),
        (
            BodySettings(
                name="a",
                shape=CUBE,
                mass=1.0,
                joint=(JointSettings(kind="slide", axis=(1, 0, 0)), JointSettings(kind="slide", axis=(0, 0, 1))),
            ),
            1e-3,
            "'mujoco' cannot compile the model of scene",
        ),
    ],
)
def test_unsupported_parts_are_refused_by_name(body, dt, field):
    with pytest.raises(ConfigError, match=field):
        build_scene(scene(body, dt=dt), MujocoSettings())
