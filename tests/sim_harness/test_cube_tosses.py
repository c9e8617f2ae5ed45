"""`idyn compare cube-tosses`: its data, fits, parameters and command, and the measured tosses where they are."""

import base64
import json
import os
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fast import every, full
from flying_blocks import CENTRE, GRAVITY, arrays, flying
from scipy.spatial.transform import Rotation

from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.judge.tosses import FILE, VARIABLE, load_tosses
from sim_harness.studies.cube_tosses import paired, tosses_page
from sim_harness.studies.toss_fits import (
    ENTRIES,
    Identified,
    Parameters,
    intervals,
    load_parameters,
    resumed,
    save_parameters,
    search,
    split,
    whole_errors,
    window_errors,
)
from sim_harness.studies.toss_forecasts import Flight, Forecast, identify_flight

DATA = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2].parent / "shared" / "data")
PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "cube-tosses-parameters.json"
measured = pytest.mark.skipif(not (DATA / FILE).is_file(), reason=f"no {FILE} beside the project or in {VARIABLE}")


def test_tosses_are_read_as_they_are_written(tmp_path):
    tosses = [flying(seed, samples) for seed, samples in ((0, 10), (1, 25))]
    np.savez(tmp_path / FILE, **arrays(tosses))
    for found, toss in zip(load_tosses(tmp_path), tosses, strict=True):
        for field in ("position", "rotation", "velocity", "spin"):
            np.testing.assert_allclose(getattr(found, field), getattr(toss, field), atol=1e-12)


@every(
    ("change", "where"),
    [
        ({"velocity": None}, "velocity"),
        ({"velocity": np.zeros((4, 3))}, "velocity"),
        ({"position": np.full((20, 3), np.nan)}, "position"),
        ({"quaternion_wxyz": np.ones((20, 4))}, "quaternion_wxyz"),
        ({"start": np.array([0, 12, 11, 20])}, "start"),
        ({"start": np.array([0.0, 20.0])}, "start"),
        ({"start": np.array([0, 19])}, "start"),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path, change, where):
    given = arrays([flying(0, 20)]) | change
    np.savez(tmp_path / FILE, **{name: value for name, value in given.items() if value is not None})
    with pytest.raises(ConfigError) as caught:
        load_tosses(tmp_path)
    assert caught.value.path == f"{FILE}: {where}"


def test_a_missing_file_and_a_file_of_another_kind_are_refused(tmp_path):
    (tmp_path / FILE).write_text("no archive")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError) as caught:
            load_tosses(folder)
        assert caught.value.path == "--data"


def test_the_split_is_300_to_100_and_has_no_common_toss():
    fitted, judged = split(400)
    assert (len(fitted), len(judged)) == (300, 100)
    assert sorted([*fitted, *judged]) == list(range(400))


def test_a_search_finds_the_least_loss_and_intervals_follow_the_scatter():
    random, best = np.random.default_rng(0), np.log([0.18, 1.2])
    centres = best + 0.1 * random.normal(size=(80, 2))

    def losses_at(values):
        return ((np.log([values["mu"], values["inertia"]]) - centres) ** 2).sum(axis=1)

    trials = search(losses_at, ("mu", "inertia"), 60)
    least = trials.points[trials.losses.mean(axis=1).argmin()]
    np.testing.assert_allclose(least, centres.mean(axis=0), atol=5e-3)
    low, high = intervals(trials, ("mu", "inertia"))
    np.testing.assert_allclose(high - low, 2 * 1.96 * centres.std(axis=0) / np.sqrt(80), rtol=0.2)
    assert (low < centres.mean(axis=0)).all()
    assert (high > centres.mean(axis=0)).all()


def test_a_difference_counts_beyond_two_standard_errors():
    assert paired(np.array([-1.0, -1.1, -0.9]), ".1f").endswith("better")
    assert paired(np.array([1.0, 1.1, 0.9]), ".1f").endswith("worse")
    assert paired(np.array([-1.0, 1.2, 0.3]), ".1f")[-1].isdigit()


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


def test_the_animation_has_both_blocks_where_they_are():
    toss = flying(7)
    forecast = Forecast(toss.position + np.array([0.0, 0.1, 0.0]), np.swapaxes(toss.rotation, 1, 2), 0)
    page = tosses_page({"label of a toss": (toss, forecast)})
    data = json.loads(re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.DOTALL)[1])
    film = data["runs"][0]["film"]
    poses = np.frombuffer(base64.b64decode(film["poses"]), dtype=np.float32).reshape(len(toss), film["joints"], 7)
    assert data["runs"][0]["label"] == "label of a toss"
    shapes = data["robots"][data["runs"][0]["robot"]]["shapes"]
    solid, transparent = sorted(shapes, key=lambda shape: -shape["opacity"])
    for shape, position, rotation in (
        (solid, toss.position, toss.rotation),
        (transparent, forecast.position, forecast.rotation),
    ):
        joint = shape["joint"]
        np.testing.assert_allclose(poses[:, joint, :3], position, atol=1e-6)
        np.testing.assert_allclose(Rotation.from_quat(poses[:, joint, 3:]).as_matrix(), rotation, atol=1e-6)


def test_finished_fits_of_the_same_data_and_rules_are_not_repeated(tmp_path):
    path, known = tmp_path / "p.json", identified()
    begun = msgspec.structs.replace(known, engines={})
    assert resumed(path, begun) is begun
    save_parameters(path, known)
    assert resumed(path, begun).engines.keys() == {"lcp"}
    for change in ({"tosses": 299}, {"rules": "10 evaluations"}, {"flight": Flight(gravity=9.61, centre=known.flight.centre)}):
        assert resumed(path, msgspec.structs.replace(begun, **change)).engines == {}


@every(
    ("old", "new", "where"),
    [
        ('"lcp"', '"lpc"', "p.json.engines.lpc"),
        ('"mu": 0.18', '"nu": 0.18', "p.json.engines.lcp.values"),
        ('"mu": 0.18', '"mu": Infinity', "p.json.engines.lcp.values.mu"),
        ('"mu": 0.18', '"mu": -1.0', "p.json.engines[...].values[...]"),
        ("{", "", "--parameters"),
    ],
)
def test_a_wrong_file_of_parameters_is_refused(tmp_path, old, new, where):
    path = tmp_path / "p.json"
    save_parameters(path, identified())
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_parameters(path)
    assert caught.value.path == where


@every(
    ("words", "message"),
    [
        (["cube-tosses", "--engines", "lpc"], "unknown engine 'lpc' (nearest: lcp"),
        (["cube-tosses", "--engines", "sap", "--parameters", "p.json"], "expected parameters of 'sap', got those of lcp"),
        (["cube-tosses", "--engines", "lcp", "--data", "short.npz"], "at least 16 samples per toss, got a toss of 15"),
        (["sap-study", "--engines", "sap"], "--engines: expected the comparison cube-tosses, got sap-study"),
    ],
)
def test_wrong_options_are_refused(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    np.savez(FILE, **arrays([flying(seed, 20) for seed in range(8)]))
    np.savez("short.npz", **arrays([flying(seed, 15) for seed in range(8)]))
    save_parameters(Path("p.json"), identified())
    assert main(["compare", *words]) != 0
    assert message in capsys.readouterr().err


@measured
def test_the_measured_block_is_smaller_than_its_source_says_and_heavier_on_one_side():
    tosses = load_tosses(DATA)
    found = identify_flight([tosses[i] for i in split(len(tosses))[0]])
    assert found.scale == pytest.approx(0.979, abs=2e-3)
    assert found.centre[2] == pytest.approx(5.5e-3, abs=1e-3)
    assert found.residual < 1e-4


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


@measured
@full
def test_short_windows_of_the_published_parameters():
    tosses, known = load_tosses(DATA), load_parameters(PUBLISHED)
    judged = [tosses[i] for i in split(len(tosses))[1]]
    errors = window_errors(ENTRIES["sap"].build(known.flight, known.engines["sap"].values), judged, 16)
    assert errors.position.mean() <= 0.025
    assert np.degrees(errors.rotation.mean()) <= 2.3
