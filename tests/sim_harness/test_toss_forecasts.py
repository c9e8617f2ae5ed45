"""Forecasts of tosses against free flight, the world of scenes, and a block that slides."""

import numpy as np
import pytest
from flying_blocks import CENTRE, GRAVITY, flying
from scipy.spatial.transform import Rotation

from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.sap import Sap
from sim_harness.judge.tosses import EDGE, MASS, RATE, Toss
from sim_harness.scenes.load import check_scene
from sim_harness.scenes.scene_settings import BodySettings, GroundSettings, Material, SceneSettings, Shape
from sim_harness.studies.cube_tosses import depth_of, energy_of
from sim_harness.studies.toss_fits import BOUNDS, ENTRIES, whole_errors, window_errors
from sim_harness.studies.toss_forecasts import Block, Contact, EngineForecaster, Flight, Forecast, first_motion, identify_flight
from sim_harness.world.worlds import build_scene


def test_flights_tell_gravity_and_the_centre_of_mass():
    found = identify_flight([flying(seed) for seed in range(6)])
    np.testing.assert_allclose(found.gravity, GRAVITY, rtol=1e-9)
    np.testing.assert_allclose(found.centre, CENTRE, atol=1e-10)
    assert found.tosses == 6


@pytest.mark.parametrize("name", ["newton-rigid", "sap", "mujoco", "drake"])
def test_a_flight_is_forecast_from_its_first_state(name):
    pytest.importorskip({"drake": "pydrake"}.get(name, "mujoco"))
    toss = flying(3)
    flight = Flight(gravity=GRAVITY, centre=tuple(CENTRE.tolist()))
    values = {key: BOUNDS[key].start for key in ENTRIES[name].parameters}
    errors = whole_errors(ENTRIES[name].build(flight, values), [toss])
    assert errors.position[0] < 1e-3  # 0.1 mm: velocity by differences of a turning body
    turned = 0.01 if name == "drake" else 1e-5  # Drake integrates quaternions to first order
    assert np.degrees(errors.rotation[0]) < turned


@pytest.mark.parametrize(
    ("engine", "contact", "substeps"),
    [
        (PolygonLcp(edges=8), Contact(0.2), 1),
        (Newton(), Contact(0.2), 1),
        (Newton(), Contact(0.2, 3e4, 5e-3), 2),
        (Sap(), Contact(0.2, 3e4, 5e-3), 2),
    ],
)
def test_a_forecast_is_that_of_the_scene_of_this_block(engine, contact, substeps):
    """The world of scenes shares the engines with the forecast, but no geometry, dynamics or integration."""
    toss, inertia = flying(4, samples=60, height=0.15), 1.1e-3
    block = Block(half=0.05, mass=MASS, inertia=inertia, centre=np.zeros(3), gravity=GRAVITY)
    step = 1.0 / (RATE * substeps)
    start = first_motion(block, toss, 0, step)
    soft = {} if contact.stiffness is None else {"stiffness": contact.stiffness, "dissipation": contact.dissipation}
    body = BodySettings(
        name="block",
        shape=Shape(box=(0.1, 0.1, 0.1)),
        mass=MASS,
        inertia=(inertia,) * 3,
        material=Material(mu=contact.mu, **soft),
        position=tuple(start.position),
        turn=tuple(Rotation.from_matrix(start.rotation).as_euler("xyz")),
        velocity=tuple(start.velocity[:3]),
        spin=tuple(start.rotation @ start.velocity[3:]),
    )
    ground = GroundSettings(material=Material(mu=contact.mu))
    settings = SceneSettings(
        about="", engines=("lcp",), dt=step, duration=1.0, body=(body,), ground=ground, gravity=GRAVITY, margin=0.02
    )
    world = build_scene(check_scene(settings), engine)
    forecast = EngineForecaster(block, engine, contact, substeps)(toss, 0, 60)
    lowest = np.inf
    for k in range(1, 60):
        for _ in range(substeps):
            world.step()
        rotations, centres = world.bodies.place(world.q)
        lowest = min(lowest, centres[0, 2])
        np.testing.assert_allclose(forecast.position[k], centres[0], atol=1e-8)
        np.testing.assert_allclose(forecast.rotation[k], rotations[0], atol=1e-7)
    assert lowest < 0.08  # it has touched
    assert forecast.failed == 0


@pytest.mark.parametrize("name", ["mujoco", "drake"])
def test_foreign_engines_slide_and_rest_like_ours(name):
    """A block that lies flat and slides stops after v² / 2 μ g, in every engine."""
    pytest.importorskip({"drake": "pydrake"}.get(name, name))
    flight = Flight(gravity=9.81, centre=(0.0, 0.0, 0.0))
    values = {key: BOUNDS[key].start for key in ENTRIES[name].parameters} | {"mu": 0.2}
    rest = np.tile([0.0, 0.0, 0.5 * EDGE], (2, 1))
    toss = Toss(
        position=rest, rotation=np.tile(np.eye(3), (2, 1, 1)), velocity=np.tile([0.5, 0.0, 0.0], (2, 1)), spin=np.zeros((2, 3))
    )
    forecast = ENTRIES[name].build(flight, values)(toss, 0, 80)
    np.testing.assert_allclose(forecast.position[-1], rest[0] + [0.5**2 / (2 * 0.2 * 9.81), 0.0, 0.0], atol=2e-3)
    np.testing.assert_allclose(forecast.rotation[-1], np.eye(3), atol=1e-2)


def test_errors_are_block_widths_and_angles():
    toss = flying(5, samples=31)
    turn = Rotation.from_rotvec([0.0, np.radians(10.0), 0.0]).as_matrix()

    def wrong(toss, sample, samples):
        part = slice(sample, sample + samples)
        return Forecast(toss.position[part] + [0.1 * EDGE, 0.0, 0.0], toss.rotation[part] @ turn, 0)

    for errors in (whole_errors(wrong, [toss, toss]), window_errors(wrong, [toss, toss], 16)):
        np.testing.assert_allclose(errors.position, [0.1, 0.1], rtol=1e-9)
        np.testing.assert_allclose(np.degrees(errors.rotation), [10.0, 10.0], rtol=1e-9)


def test_energy_in_flight_is_constant_and_a_corner_below_the_floor_is_a_depth():
    toss = flying(6)
    block = Block(half=0.05, mass=MASS, inertia=1e-3, centre=CENTRE, gravity=GRAVITY)
    energy = energy_of(block, toss.position, toss.rotation)
    speed, spin = RATE * np.diff(toss.position + toss.rotation @ CENTRE, axis=0)[0], toss.spin[0]
    height = (toss.position + toss.rotation @ CENTRE)[:2, 2].mean()
    expected = 0.5 * MASS * speed @ speed + 0.5e-3 * spin @ spin + MASS * GRAVITY * height
    np.testing.assert_allclose(energy, expected, rtol=1e-4)  # half a sample of gravity apart
    flat = np.array([[0.0, 0.0, 0.049], [0.0, 0.0, 0.06]]), np.tile(np.eye(3), (2, 1, 1))
    assert depth_of(block, *flat) == pytest.approx(0.001)
