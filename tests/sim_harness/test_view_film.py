"""Data of the viewer: poses as in Pinocchio, forces that explain the motion, and the ground."""

import numpy as np
import pinocchio as pin
import pytest
from fast import every

from controllers.contact.source import ContactSettings
from controllers.contact.terrain import FlatSettings, HeightmapSettings, SlopeSettings, StairsSettings
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import InputError
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.view.film import film_of, ground_of, poses_of
from sim_harness.view.page import newtons_per_metre, size_of


def quiet(label, ticks):
    pass


@pytest.fixture(scope="module")
def trot():
    """Robot, terrain, and the trace of a trot on hills."""
    plan = load_plan("trot-heightmap", 0.4)
    run = run_in_process(plan, "coulomb", quiet)
    contact = plan.controller.contact
    return load_robot(plan.controller.robot)[0], contact.terrain.build(contact.ground), run.trace


def test_the_worlds_forces_move_the_robot_as_it_moved(trot):
    """Σ f = m (a − g) at the centre of mass, of an acceleration that Pinocchio finds from the trace."""
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace, rate=1000.0)
    assert len(film.t) == len(trace)
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    for i in range(0, len(trace) - 1, 7):
        a = (trace.v[i + 1] - trace.v[i]) / (trace.t[i + 1] - trace.t[i])
        pin.centerOfMass(model, data, trace.q[i], trace.v[i], a)
        np.testing.assert_allclose(film.world[i].sum(axis=0), data.mass[0] * (data.acom[0] + [0, 0, 9.81]), atol=1e-6)


def test_predicted_forces_are_shown_with_simulated_ones(trot):
    """On the ground the law is exact: the same vectors, and nothing at feet in the air."""
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    np.testing.assert_allclose(film.predicted, film.world, atol=1e-3)
    assert film.known
    lifted = film.points[:, :, 2] - terrain.height(film.points.reshape(-1, 3)).reshape(film.points.shape[:2]) > 0.003
    assert lifted.any()
    np.testing.assert_allclose(film.world[lifted], 0.0, atol=1e-12)


def test_centre_of_mass_and_normals_match_pinocchio_and_the_ground(trot):
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    for row, centre in zip(np.searchsorted(trace.t, film.t - 1e-9), film.centre, strict=True):
        np.testing.assert_allclose(centre, pin.centerOfMass(model, data, trace.q[row]), atol=1e-12)
    step = 1e-4  # the normal is the gradient of the distance
    for k in range(3):
        ahead, behind = (terrain.query((film.points + s * step * np.eye(3)[k]).reshape(-1, 3))[0] for s in (1, -1))
        slopes = (np.asarray(ahead) - behind).reshape(film.points.shape[:2]) / (2 * step)
        np.testing.assert_allclose(film.normals[..., k], slopes, atol=0.02)


def test_friction_is_that_of_the_controller_the_ground_or_else_the_robot(trot):
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    np.testing.assert_allclose(film.friction[3], terrain.friction.at(film.points[3]))
    assert (film_of(robot, Flat(), trace).friction == robot.spheres.mu).all()
    assert (film_of(robot, terrain, trace, mu=0.25).friction == 0.25).all()
    assert np.isfinite(film_of(robot, terrain, trace, mu=np.inf).friction).all()


def test_the_number_of_frames_is_as_requested(trot):
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace, rate=50.0)
    np.testing.assert_allclose(film.t[:-1], np.arange(20) / 50, atol=1e-9)
    assert film.t[-1] == trace.t[-1]


@every("name", ["quadruped", "arm", "solo12", "a1", "go2"])
def test_poses_match_pinocchio(name):
    robot, stance = load_robot(name)
    root = [pin.JointModelFreeFlyer()] if robot.floating else []
    model = pin.buildModelFromXML(robot.description.urdf, *root)
    data = model.createData()
    q = robot.integrate(stance, np.random.default_rng(1).normal(0.0, 0.5, robot.nv))
    pin.forwardKinematics(model, data, q)
    for placement, pose in zip(data.oMi, poses_of(robot, q), strict=True):
        np.testing.assert_allclose(pin.XYZQUATToSE3(pose).homogeneous, placement.homogeneous, atol=1e-12)


def test_a_diverged_world_is_shown_up_to_the_divergence(trot):
    robot, terrain, trace = trot
    q = trace.q.copy()
    q[101] = 1e200
    q[102:] = np.nan
    fields = {name: getattr(trace, name) for name in trace.__struct_fields__}
    film = film_of(robot, terrain, type(trace)(**fields | {"q": q}))
    assert film.t[-1] == trace.t[100]
    assert np.isfinite(film.poses).all()
    with pytest.raises(InputError, match="first configuration"):
        film_of(robot, terrain, type(trace)(**fields | {"q": np.full_like(q, np.nan)}))


@every(
    "terrain",
    [
        FlatSettings(),
        SlopeSettings(angle=-0.3),
        StairsSettings(start=0.1, depth=0.13, rise=0.04, steps=4),
        StairsSettings(start=-5.0, steps=40, depth=0.25),
        HeightmapSettings(seed=3, hills=50, bump=0.1),
    ],
)
def test_the_ground_is_where_the_feet_meet_it(terrain):
    """All its vertices have the distance 0, and each riser stands upright."""
    contact = ContactSettings(ground=0.07, terrain=terrain)
    ground = ground_of(contact, np.array([[0.0, 0.0, 0.3], [0.5, -0.3, 0.3]]))
    assert ground.x[0] <= -0.8 + 1e-9
    assert ground.x[-1] >= 1.3 - 1e-9
    assert ground.z.shape == (len(ground.x), len(ground.y))
    assert (np.diff(ground.x) >= 0).all()
    x, y = np.meshgrid(ground.x, ground.y, indexing="ij")
    distances, _ = terrain.build(0.07).query(np.stack([x, y, ground.z], axis=-1).reshape(-1, 3))
    np.testing.assert_allclose(distances, 0.0, atol=1e-9)
    if isinstance(terrain, StairsSettings):
        risers = np.flatnonzero(np.diff(ground.x) == 0)
        expected = terrain.start + terrain.depth * np.arange(terrain.steps)
        np.testing.assert_allclose(ground.x[risers], expected[(expected > ground.x[0]) & (expected < ground.x[-1])])
        np.testing.assert_allclose(ground.z[risers + 1] - ground.z[risers], terrain.rise)
        np.testing.assert_allclose(np.diff(ground.z, axis=0)[np.diff(ground.x) > 0], 0.0, atol=1e-12)


def test_arrows_have_a_round_scale_that_suits_the_robot(trot):
    robot, terrain, trace = trot
    size = size_of(film_of(robot, terrain, trace), 1)
    assert 0.2 < size < 0.4
    for weight in (20.0, 47.0, 160.0, 500.0):
        newtons = newtons_per_metre(weight, size)
        assert f"{newtons / 10:.0e}"[0] in "125"
        assert 0.5 < weight / newtons / size < 2.5
