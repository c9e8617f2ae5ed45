"""Measured tosses of a cube, and forecasts of them under each engine."""

import os
from pathlib import Path

import numpy as np
import pytest
from cli import prints
from fast import full
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.sap import Sap
from sim_harness.studies import toss_fits
from sim_harness.studies.measured_tosses import EDGE, FILE, MASS, RATE, VARIABLE, Toss, load_tosses
from sim_harness.studies.scenes.load import check_scene
from sim_harness.studies.scenes.scene_settings import BodySettings, GroundSettings, Material, SceneSettings, Shape
from sim_harness.studies.scenes.world import build_scene
from sim_harness.studies.toss_fits import BOUNDS, ENTRIES, Identified, Parameters
from sim_harness.studies.toss_forecasts import Block, Contact, EngineForecaster, Flight, first_motion, identify_flight

CENTRE, GRAVITY = np.array([0.001, -0.002, 0.006]), 9.6
DATA = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2].parent / "shared" / "data")
PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "cube-tosses-parameters.json"
measured = pytest.mark.skipif(not (DATA / FILE).is_file(), reason=f"no {FILE} beside the project or in {VARIABLE}")
RIGID, SOFT = Contact(0.2), Contact(0.2, 3e4, 5e-3)
STEPPED = [(PolygonLcp(edges=8), RIGID, 1), (Newton(), RIGID, 1), (Newton(), SOFT, 2), (Sap(), SOFT, 2)]


def flying(seed, samples=25, height=0.3):
    """A toss in flight, exact: the centre of mass on a parabola, a constant spin."""
    random = np.random.default_rng(seed)
    t = np.arange(-1, samples) / RATE
    spin, start = random.normal(size=3) * 5.0, Rotation.random(rng=random)
    turns = (start * Rotation.from_rotvec(t[:, None] * spin)).as_matrix()
    centre = np.array([0.0, 0.0, height]) + t[:, None] * random.normal(size=3) - 0.5 * t[:, None] ** 2 * [0, 0, GRAVITY]
    position = centre - turns @ CENTRE
    velocity = RATE * np.diff(position, axis=0)
    return Toss(position=position[1:], rotation=turns[1:], velocity=velocity, spin=np.tile(spin, (samples, 1)))


def arrays(tosses):
    quaternions = np.concatenate([Rotation.from_matrix(toss.rotation).as_quat(scalar_first=True) for toss in tosses])
    names = {"position": "position", "velocity": "velocity", "angular_velocity": "spin"}
    found = {name: np.concatenate([getattr(toss, field) for toss in tosses]) for name, field in names.items()}
    return found | {"start": np.cumsum([0, *map(len, tosses)]), "quaternion_wxyz": quaternions}


def test_tosses_are_read_as_they_are_written_and_other_files_refused(tmp_path):
    tosses = [flying(seed, samples) for seed, samples in ((0, 10), (1, 25))]
    np.savez(tmp_path / FILE, **arrays(tosses))
    for found, toss in zip(load_tosses(tmp_path), tosses, strict=True):
        for field in ("position", "rotation", "velocity", "spin"):
            np.testing.assert_allclose(getattr(found, field), getattr(toss, field), atol=1e-12)
    (tmp_path / FILE).write_text("no archive")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError) as caught:
            load_tosses(folder)
        assert caught.value.path == "--data"


@full
def test_other_tosses_are_judged_by_a_file_of_parameters(tmp_path, capsys):
    values, flight = {"mu": 0.18, "inertia": 1.1, "restitution": 0.1}, Flight(gravity=GRAVITY, centre=tuple(CENTRE.tolist()))
    lcp = Identified(values=values, intervals={"mu": (0.17, 0.19)}, loss=0.3, evaluations=9)
    identified = Parameters(flight=flight, tosses=300, rules="9 evaluations", engines={"lcp": lcp})
    toss_fits.save_parameters(tmp_path / "p.json", identified)
    np.savez(tmp_path / FILE, **arrays([flying(seed, 20, height=1.0) for seed in range(3)]))
    words = ["compare", "cube-tosses", "--data", str(tmp_path), "--parameters", str(tmp_path / "p.json")]
    text = prints(capsys, *words, "--out", str(tmp_path / "out"))
    row = next(line for line in text.splitlines() if line.startswith("lcp"))
    assert float(row.split()[1]) < 1e-3  # flights are forecast
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "errors.png", "tosses.png"}


@measured
@full
def test_the_published_parameters_reach_the_published_lines():
    tosses, known = load_tosses(DATA), toss_fits.load_parameters(PUBLISHED)
    judged = [tosses[i] for i in toss_fits.split(len(tosses))[1]]
    built = {name: ENTRIES[name].build(known.flight, known.engines[name].values) for name in ("mujoco", "sap", "newton")}
    found = {name: toss_fits.whole_errors(forecast, judged) for name, forecast in built.items()}
    mujoco = found.pop("mujoco")
    assert mujoco.position.mean() <= 0.110
    assert np.degrees(mujoco.rotation.mean()) <= 12.0
    for errors in found.values():  # better by at least two standard errors of the paired differences
        for difference in (errors.position - mujoco.position, errors.rotation - mujoco.rotation):
            assert difference.mean() + 2.0 * difference.std(ddof=1) / 10.0 < 0.0


def test_flights_tell_gravity_and_the_centre_of_mass():
    found = identify_flight([flying(seed) for seed in range(6)])
    np.testing.assert_allclose(found.gravity, GRAVITY, rtol=1e-9)
    np.testing.assert_allclose(found.centre, CENTRE, atol=1e-10)
    assert found.tosses == 6


@pytest.mark.parametrize(("engine", "contact", "substeps"), STEPPED)
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
    about = {"about": "", "engines": ("lcp",), "dt": step, "duration": 1.0, "margin": 0.02}
    settings = SceneSettings(body=(body,), ground=ground, gravity=GRAVITY, **about)
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
    upright, velocity = np.tile(np.eye(3), (2, 1, 1)), np.tile([0.5, 0.0, 0.0], (2, 1))
    toss = Toss(position=rest, rotation=upright, velocity=velocity, spin=np.zeros((2, 3)))
    forecast = ENTRIES[name].build(flight, values)(toss, 0, 80)
    np.testing.assert_allclose(forecast.position[-1], rest[0] + [0.5**2 / (2 * 0.2 * 9.81), 0.0, 0.0], atol=2e-3)
    np.testing.assert_allclose(forecast.rotation[-1], np.eye(3), atol=1e-2)
