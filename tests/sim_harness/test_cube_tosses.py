"""Measured tosses of a cube, and forecasts of them under each engine."""

import os
from pathlib import Path

import numpy as np
import pytest
from fast import full
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.sap import Sap
from sim_harness.scenes.load import check_scene
from sim_harness.scenes.scene_settings import BodySettings, GroundSettings, Material, SceneSettings, Shape
from sim_harness.studies.measured_tosses import EDGE, FILE, MASS, RATE, VARIABLE, Toss, load_tosses
from sim_harness.studies.toss_fits import (
    BOUNDS,
    ENTRIES,
    Identified,
    Parameters,
    load_parameters,
    save_parameters,
    split,
    whole_errors,
)
from sim_harness.studies.toss_forecasts import Block, Contact, EngineForecaster, Flight, first_motion, identify_flight
from sim_harness.world.worlds import build_scene

CENTRE, GRAVITY = np.array([0.001, -0.002, 0.006]), 9.6


def flying(seed, samples=25, height=0.3):
    """A toss in flight, exact: the centre of mass on a parabola, a constant spin."""
    random = np.random.default_rng(seed)
    t = np.arange(-1, samples) / RATE
    spin, start = random.normal(size=3) * 5.0, Rotation.random(rng=random)
    turns = (start * Rotation.from_rotvec(t[:, None] * spin)).as_matrix()
    centre = np.array([0.0, 0.0, height]) + t[:, None] * random.normal(size=3) - 0.5 * t[:, None] ** 2 * [0, 0, GRAVITY]
    position = centre - turns @ CENTRE
    return Toss(
        position=position[1:], rotation=turns[1:], velocity=RATE * np.diff(position, axis=0), spin=np.tile(spin, (samples, 1))
    )


def arrays(tosses):
    """The arrays of a file with these tosses."""
    quaternions = np.concatenate([Rotation.from_matrix(toss.rotation).as_quat(scalar_first=True) for toss in tosses])
    return {
        "start": np.cumsum([0, *map(len, tosses)]),
        "position": np.concatenate([toss.position for toss in tosses]),
        "quaternion_wxyz": quaternions,
        "velocity": np.concatenate([toss.velocity for toss in tosses]),
        "angular_velocity": np.concatenate([toss.spin for toss in tosses]),
    }


DATA = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2].parent / "shared" / "data")
PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "cube-tosses-parameters.json"
measured = pytest.mark.skipif(not (DATA / FILE).is_file(), reason=f"no {FILE} beside the project or in {VARIABLE}")


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


def identified():
    values = {"mu": 0.18, "inertia": 1.1, "restitution": 0.1}
    return Parameters(
        flight=Flight(gravity=GRAVITY, centre=tuple(CENTRE.tolist())),
        tosses=300,
        rules="9 evaluations",
        engines={"lcp": Identified(values=values, intervals={"mu": (0.17, 0.19)}, loss=0.3, evaluations=9)},
    )


def test_other_tosses_are_judged_by_a_file_of_parameters(tmp_path, capsys):
    save_parameters(tmp_path / "p.json", identified())
    np.savez(tmp_path / FILE, **arrays([flying(seed, 20, height=1.0) for seed in range(3)]))
    words = ["compare", "cube-tosses", "--data", str(tmp_path), "--parameters", str(tmp_path / "p.json")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("lcp"))
    assert float(row.split()[1]) < 1e-3  # flights are forecast
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "errors.png", "tosses.png"}


@measured
@full
def test_the_published_parameters_reach_the_published_lines():
    tosses, known = load_tosses(DATA), load_parameters(PUBLISHED)
    judged = [tosses[i] for i in split(len(tosses))[1]]
    found = {
        name: whole_errors(ENTRIES[name].build(known.flight, known.engines[name].values), judged)
        for name in ("mujoco", "sap", "newton")
    }
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
