"""Matrices of parts and worlds, and races of engines: their settings, runs and pages."""

import json
import math
from typing import get_args

import msgspec
import pytest
from fast import every, full
from test_compare import FIGURES

from idyn.errors import ConfigError
from idyn.laws import LAWS, ConeSettings, CoulombSettings
from sim_harness.commands.main import main
from sim_harness.compare.jobs import RESULT
from sim_harness.compare.matrix import (
    Panel,
    all_tasks,
    decide_cells,
    load_comparison,
    upright_table,
)
from sim_harness.compare.report import Finding, comparison_report
from sim_harness.compare.results import Options, Runs
from sim_harness.compare.settings import Cell, CellCheckSettings, cells, plan_of_cell
from sim_harness.compare.studies import comparison_module
from sim_harness.engines import NAMES
from sim_harness.engines.penalty import Penalty
from sim_harness.measure.verdict import Ending, verdict
from sim_harness.robot.imperfections import ImperfectionSettings
from sim_harness.run.experiment import TRACE, run_in_process
from sim_harness.studies.race import load_comparison as load_race
from sim_harness.studies.race import run_race
from sim_harness.world.worlds import AnyEngine

MATRIX = """
title = "two robots"
experiment = "stand"
seeds = 2
[changes]
duration = 0.03
[matrix.variants.shipped]
[matrix.variants.soft]
controller.feedback = { kp = 400.0 }
[matrix.robots]
quadruped = { server = "quadruped" }
solo12 = { server = "quadruped", controller = { robot = "solo12" } }
[matrix.worlds]
lcp = {}
penalty = { engine = { kind = "penalty", kp = 2e4 } }
[matrix.laws.cone]
changes = { contacts = "message", controller.law = { kind = "cone", edges = 8 } }
worlds.penalty.controller.law.edges = 16
[matrix.cases.plain]
[matrix.cases.drives]
changes.robot.trunk.mass_factor = 1.1
robots.solo12.robot.drive = { armature = 0.001 }
[[matrix.part]]
name = "stand"
robots = ["quadruped", "solo12"]
worlds = ["lcp", "penalty"]
laws = ["coulomb"]
cases = ["plain", "drives"]
quantities = ["torque"]
[[matrix.part]]
name = "laws"
robots = ["quadruped"]
worlds = ["lcp"]
laws = ["coulomb", "cone"]
cases = ["plain"]
columns = "law"
seeds = 1
[[matrix.check]]
claim = "all stand"
at_least = 1.0
[[matrix.check]]
claim = "torque is small"
parts = ["stand"]
cases = ["plain"]
quantity = "torque"
at_most = 1.0
"""


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    return str(path)


def runs(*seconds):
    """Runs of so many seconds; 1.0 is the full duration, shorter ones fell."""
    summaries = [
        msgspec.structs.replace(
            FIGURES,
            seconds=s,
            verdict=FIGURES.verdict if s == 1.0 else verdict(Ending.FELL, f"fell at {s:.2f} s", s),
            tracking=0.002,
            torque=s,
        )
        for s in seconds
    ]
    return Runs(folders=[], summaries=summaries)


def test_every_combination_is_a_cell(matrix):
    settings = load_comparison(matrix).matrix
    found = list(cells(settings))
    assert len(found) == len(set(found)) == 2 * (2 * 2 * 2 + 2)
    assert Cell("stand", "soft", "solo12", "penalty", "coulomb", "drives") in found
    assert {cell.robot for cell in found if cell.part == "laws"} == {"quadruped"}


def test_changes_of_every_axis_reach_the_plan(matrix):
    comparison = load_comparison(matrix)
    plan = plan_of_cell(comparison, Cell("stand", "soft", "solo12", "penalty", "coulomb", "drives"))
    settings, controller = plan.settings, plan.controller
    assert (settings.engine, settings.duration) == (Penalty(kp=2e4), 0.03)
    assert (settings.robot.trunk.mass_factor, settings.robot.drive.armature) == (1.1, 0.001)
    assert (controller.robot, controller.feedback.kp, controller.law) == ("solo12", 400.0, CoulombSettings())
    other = plan_of_cell(comparison, Cell("laws", "shipped", "quadruped", "lcp", "cone", "plain"), seconds=0.5)
    assert (other.settings.duration, other.settings.robot, other.controller.law) == (
        0.5,
        ImperfectionSettings(),
        ConeSettings(edges=8),
    )
    assert (other.controller.robot, other.controller.feedback.kp) == ("quadruped", 900.0)
    assert (settings.contacts, other.settings.contacts) == ("geometry", "message")
    told = plan_of_cell(comparison, Cell("laws", "shipped", "quadruped", "penalty", "cone", "plain"))
    assert (told.controller.law, told.settings.engine) == (ConeSettings(edges=16), Penalty(kp=2e4))


@full
def test_a_cell_shared_by_two_parts_is_one_job(matrix, tmp_path):
    comparison = load_comparison(matrix)
    tasks = all_tasks(comparison, tmp_path, Options())
    counts = {cell.part: len(tasks[cell]) for cell in cells(comparison.matrix)}
    assert counts == {"stand": 2, "laws": 1}
    folders = {task.folder for same in tasks.values() for task in same}
    assert len(folders) == 2 * (8 * 2 + 1)  # of the part "laws" only cone is new
    assert {len(same) for same in all_tasks(comparison, tmp_path, Options(seeds=3)).values()} == {3}


@every(("old", "new", "named"), [
        ('worlds = ["lcp", "penalty"]', 'worlds = ["lpc"]', "part.stand.worlds: unknown name 'lpc'"),
        ('cases = ["plain", "drives"]', 'cases = ["drivse"]', "drives"),
        ('laws = ["coulomb"]', 'laws = ["columb"]', "part.stand.laws: unknown name 'columb' .nearest: coulomb"),
        ("worlds.penalty.controller", "worlds.penlaty.controller", "laws.cone.worlds: unknown name 'penlaty'"),
        ("robots.solo12.robot", "robots.solo.robot", "cases.drives.robots: unknown name 'solo'"),
        ('quantities = ["torque"]', 'quantities = ["torqe"]', "torque"),
        ('parts = ["stand"]', 'parts = ["stnad"]', "check.parts: unknown name 'stnad'"),
        ('parts = ["stand"]\ncases = ["plain"]', 'parts = ["laws"]\ncases = ["drives"]', "check.parts: unknown name 'laws'"),
        ('name = "laws"', 'name = "stand"', "different names"),
        ('quantity = "torque"', 'quantity = "torque"\nvariant = "sotf"', "check.variant: unknown name 'sotf'"),
        ("[[matrix.part]]", '[[scene]]\nname = "s"\n[[matrix.part]]', "one scene, or"),
    ])  # fmt: skip
def test_unknown_names_are_refused(matrix, tmp_path, old, new, named):
    path = tmp_path / "wrong.toml"
    assert old in MATRIX
    path.write_text(MATRIX.replace(old, new, 1))
    with pytest.raises(ConfigError, match=named):
        comparison_module(str(path)).load_comparison(str(path))


def results_of(matrix, **fallen):
    """All robots stood for a second, but those in cells of a robot and a case: `robot_case=seconds`."""
    found = {}
    for cell in cells(matrix):
        found[cell] = runs(1.0, fallen.get(f"{cell.robot}_{cell.case}", 1.0))
    return found


def test_the_table_has_counts_and_shares(matrix):
    settings = load_comparison(matrix).matrix
    results = results_of(settings, solo12_drives=0.25)
    table = upright_table(Panel(settings.part[0], "shipped"), results)
    assert table[0] == ["", "plain", "drives", "upright"]
    assert table[1] == ["quadruped · lcp", "2/2, 2 mrad, 1 N·m/s", "2/2, 2 mrad, 1 N·m/s", "100 %"]
    assert table[4] == ["solo12 · penalty", "2/2, 2 mrad, 1 N·m/s", "1/2, 2 mrad, 1 N·m/s, fell after 0.2 s", "75 %"]
    assert table[5] == ["upright", "100 %", "75 %", "88 %"]
    assert upright_table(Panel(settings.part[1], "soft"), results)[0] == ["", "coulomb", "cone", "upright"]


def test_claims_are_about_shares_or_about_every_cell(matrix):
    settings = load_comparison(matrix).matrix
    results = results_of(settings, solo12_drives=0.25)
    shares, torque = (decide_cells(check, settings, results) for check in settings.check)
    assert (shares.holds, shares.measured) == (False, "18 of 20 upright, 90.0 %")
    assert (torque.holds, torque.measured) == (True, "1 E|τ| N·m (quadruped · lcp · coulomb · plain)")
    bounds = {"claim": "", "quantity": "torque", "at_most": 2.0, "at_least": 0.5}
    assert decide_cells(CellCheckSettings(**bounds, cases=("plain",)), settings, results).holds is True
    high = CellCheckSettings(claim="", quantity="torque", at_least=1.1, cases=("plain",))
    assert decide_cells(high, settings, results).holds is False
    fell = decide_cells(CellCheckSettings(**bounds), settings, results)
    assert (fell.holds, fell.measured) == (False, "1 of 2 fell (solo12 · lcp · coulomb · drives)")
    nothing = decide_cells(CellCheckSettings(claim="", quantity="path-error"), settings, results)
    assert (nothing.holds, "no data" in nothing.measured) == (False, True)
    ninety = decide_cells(CellCheckSettings(claim="", at_least=0.9, variant="soft"), settings, results)
    assert ninety.holds is True


@full
def test_the_command_writes_a_picture_of_the_matrix_and_of_each_part(matrix, here, tmp_path, capsys):
    out, claims = tmp_path / "out", tmp_path / "claims.json"
    main(["compare", matrix, "--out", str(out), "--seeds", "1", "--json", str(claims)])
    assert len(here) == 2 * (8 + 1)
    assert [claim["claim"] for claim in json.loads(claims.read_text())] == ["all stand", "torque is small"]
    assert "quadruped · penalty" in capsys.readouterr().out
    html = (out / "report.html").read_text()
    assert html.count("data:image/png") == 2
    assert 'src="http' not in html
    for picture in ("matrix.png", "matrix-stand.png"):
        assert (out / picture).read_bytes()[1:4] == b"PNG"
    summary = json.loads((out / "summary.json").read_text())["matrix"]
    assert len(summary["cells"]) == 20
    assert summary["cells"][0]["seconds"] == [pytest.approx(0.03)]
    for folder in (out / "runs").iterdir():  # of those that stand to the end, only the figures are kept
        whole = json.loads((folder / RESULT).read_text())["summary"]["verdict"]["upright"]
        assert (folder / TRACE).exists() is not whole
    assert not math.isnan(summary["cells"][0]["quantities"]["tracking"]["mean"])


SHIPPED = ("robustness", "robustness-losses", "laws-and-worlds", "estimated-base", "slopes", "stairs")
SHIPPED += ("speed-and-pushes", "getting-up")


@full
@pytest.mark.parametrize("name", SHIPPED)
def test_every_cell_of_a_shipped_matrix_makes_a_plan(name):
    """Every robot in every case makes a plan, and so does every world, law and variant."""
    comparison = load_comparison(name)
    found = list(cells(comparison.matrix))
    some = {(axis, getattr(cell, axis)): cell for cell in found for axis in ("part", "variant", "world", "law")}
    for cell in {*some.values(), *{(cell.robot, cell.case): cell for cell in found}.values()}:
        plan_of_cell(comparison, cell)
    assert {cell.case for cell in found} == set(comparison.matrix.cases)
    assert {cell.world for cell in found} == set(comparison.matrix.worlds)


SECONDS = {"stance": 1.0, "trot": 0.6, "stance without joint feedback": 0.3}
"""Of the runs here. At first robots settle on floors that yield; the trot's first feet land at 0.38 s."""


@pytest.fixture(scope="module")
def comparison():
    return load_comparison("laws-and-worlds")


@pytest.fixture(scope="module")
def summary(comparison):
    """Of the first seed's run of a law in a world."""
    parts = {part.name: part for part in comparison.matrix.part}

    def run(part, world, law):
        cell = Cell(part, "shipped", "quadruped", world, law, parts[part].cases[0])
        plan = plan_of_cell(comparison, cell, SECONDS[part])
        return run_in_process(plan, law, lambda *_: None, seed=0).summary

    return run


def test_the_matrix_covers_every_engine_and_every_predicting_law(comparison):
    for part in ("stance", "push", "trot"):
        found = [cell for cell in cells(comparison.matrix) if cell.part == part]
        engines = {type(plan_of_cell(comparison, cell).settings.engine) for cell in found if cell.law == "coulomb"}
        assert engines == set(get_args(AnyEngine)), NAMES
        assert {cell.law for cell in found} >= set(LAWS) - {
            "sensed",
            "enumeration",
            "mujoco",
        }  # is told; takes two feet; is for one world


@full
@pytest.mark.parametrize("world", NAMES)
@pytest.mark.parametrize("law", ["no-slip", "coulomb", "cone"])
def test_a_stance_on_yielding_settings_is_predicted_within_half_a_per_cent_of_the_weight(summary, law, world):
    figures = summary("stance", world, law)
    assert figures.upright
    assert figures.force_error < 5e-3 * figures.weight
    assert figures.modes == {"ok": 1.0}


TABLES = ("d15-table-1", "d15-table-2", "d15-table-3")


def short(name, **changes):
    race = load_race(name).race
    return msgspec.structs.replace(race, duration=3 * race.dt, trials=2, lasting=2, **changes)


@full
@pytest.mark.parametrize("name", TABLES)
def test_every_engine_of_a_table_is_timed_and_reported(name, tmp_path):
    settings, seen = short(name), []
    race = run_race(settings, lambda *news: seen.append(news))
    assert seen[-1][:2] == (2 * len(settings.runner),) * 2
    for trials in race.trials.values():
        assert len(trials) == 2
        assert all(len(t.iterations) == 3 and 0 < t.engine < t.total for t in trials)
        assert trials[0].contacts > 0
    comparison_report([Finding(name, load_race(name), race)]).write(tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert settings.reference in (tmp_path / "report.html").read_text()
