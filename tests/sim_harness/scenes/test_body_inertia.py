"""Bodies whose inertia and centre of mass are given, against the mechanics of one rigid body and against MuJoCo."""

import numpy as np
import pytest
from fast import every

from idyn.errors import ConfigError
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.scenes.load import check_scene, engine_named
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene_model import SceneModel
from sim_harness.scenes.scene_settings import BodySettings, MeasureSettings, SceneSettings, Shape
from sim_harness.world.worlds import build_scene

MOMENTS, CENTRE, MASS = (1e-3, 1.5e-3, 2e-3), (0.004, -0.002, 0.006), 0.37
BLOCK = BodySettings(
    name="block",
    shape=Shape(box=(0.1, 0.1, 0.1)),
    mass=MASS,
    inertia=MOMENTS,
    mass_centre=CENTRE,
    position=(0.0, 0.0, 1.0),
    turn=(0.3, 0.2, 0.1),
    velocity=(1.0, 0.5, 0.2),
    spin=(3.0, -2.0, 4.0),
)


def scene(body=BLOCK, **settings):
    base = {"about": "", "engines": ("lcp",), "dt": 1e-4, "duration": 0.1}
    return check_scene(SceneSettings(body=(body,), **base | settings))


def changed(**fields):
    return BodySettings(**{name: getattr(BLOCK, name) for name in BLOCK.__struct_fields__} | fields)


def test_the_mass_matrix_is_that_of_the_given_moments_about_the_given_centre():
    model = SceneModel(scene())
    M = model.terms(model.start.q, model.start.v)[0]
    cross = np.array([[0, -CENTRE[2], CENTRE[1]], [CENTRE[2], 0, -CENTRE[0]], [-CENTRE[1], CENTRE[0], 0]])
    steiner = np.diag(MOMENTS) - MASS * cross @ cross
    np.testing.assert_allclose(M, np.block([[MASS * np.eye(3), -MASS * cross], [MASS * cross, steiner]]), atol=1e-15)


def test_the_centre_of_mass_flies_along_a_parabola():
    settings = scene()
    model, run = SceneModel(settings), run_scene(settings, engine_named(settings, "lcp"))
    first, last = (model.mass_centres(q)[0] for q in (run.q[0], run.q[-1]))
    away = first - np.array(BLOCK.position)
    start = np.array(BLOCK.velocity) + np.cross(BLOCK.spin, away)
    expected = first + 0.1 * start - np.array([0.0, 0.0, 0.5 * 9.81 * 0.1**2])
    np.testing.assert_allclose(last, expected, atol=2e-4)  # dt / 2 times an acceleration of 3 m/s² for 0.1 s, and g
    assert np.ptp(run.energy) < 1e-3


def test_mujoco_has_the_same_body():
    pytest.importorskip("mujoco")
    settings = scene(dt=1e-5, duration=1e-4)
    ends = []
    for engine in (engine_named(settings, "lcp"), MujocoSettings(timestep=1e-5)):
        world = build_scene(settings, engine)
        for _ in range(10):
            world.step()
        ends.append(world.v - world.bodies.start.v)
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-3, atol=1e-7)


@every(
    ("body", "more", "where"),
    [
        (changed(inertia=(1e-3, 1e-3, 3e-3)), {}, "scene.body[0].inertia"),
        (changed(mass_centre=(0.0, np.inf, 0.0)), {}, "scene.body[0].mass_centre"),
        (BLOCK, {"measure": (MeasureSettings(quantity="load", body="block", known="nothing"),)}, "scene.body[0].inertia"),
    ],
)
def test_what_no_body_can_have_is_refused(body, more, where):
    with pytest.raises(ConfigError) as caught:
        scene(body, **more)
    assert caught.value.path == where
