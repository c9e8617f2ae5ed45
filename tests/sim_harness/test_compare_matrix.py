"""Matrices of parts and worlds, races of engines, studies as data: their settings, runs and pages."""

import json
import math
from typing import get_args

import msgspec
import numpy as np
import pytest
from cli import fails
from fast import every, fast, full
from test_compare import FIGURES

from controllers.build import build_controller
from controllers.command import Inputs
from controllers.controller import Controller
from controllers.feedforward import FeedForward, Forecast
from controllers.robot.load import robot_file
from idyn import ConfigError, State, load_robot
from idyn.laws import LAWS, ConeSettings, CoulombSettings
from sim_harness.commands.main import main
from sim_harness.compare.jobs import RESULT
from sim_harness.compare.matrix import Panel, all_tasks, decide_cells, load_comparison, upright_table
from sim_harness.compare.report import Finding, comparison_report
from sim_harness.compare.results import Options, Runs
from sim_harness.compare.settings import Cell, CellCheckSettings, cells, of_robot, plan_of_cell
from sim_harness.compare.studies import comparison_module
from sim_harness.engines import NAMES
from sim_harness.engines.penalty import Penalty
from sim_harness.measure.verdict import Ending, verdict
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import listed
from sim_harness.robot.imperfections import ImperfectionSettings
from sim_harness.run.experiment import TRACE, run_in_process
from sim_harness.studies import bench_tasks, cone_study, contact_models, sap_study, tasks
from sim_harness.studies.contact_models import SCENES, plan_of
from sim_harness.studies.race import load_comparison as load_race
from sim_harness.studies.race import run_race
from sim_harness.studies.sap_study import Pile
from sim_harness.studies.study import Picture, Study, Sweep, crossed, measure, report_of
from sim_harness.studies.tasks import RUNS
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
SECONDS = {"stance": 1.0, "trot": 0.6, "stance without joint feedback": 0.3}
"""Of the runs here. At first robots settle on floors that yield; the trot's first feet land at 0.38 s."""


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    return str(path)


SERVED = """
title = "one robot"
experiment = "stand"
seeds = 1
[matrix.variants.shipped]
[matrix.robots.solo12]
server = "solo12"
[matrix.worlds.lcp]
[matrix.cases.plain]
[[matrix.part]]
name = "stand"
robots = ["solo12"]
worlds = ["lcp"]
laws = ["coulomb"]
cases = ["plain"]
quantities = ["late", "pace"]
"""


@full
def test_the_robot_of_a_draft_takes_the_place_of_all_robots_and_is_served_in_real_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.toml").write_text(SERVED)
    assert main(["new", str(robot_file("quadruped")), "--stand", "--out", "mine.toml"]) == 0
    command = ["compare", "matrix.toml", "--seconds", "0.5", "--out", "out", "--robot", "mine.toml"]
    assert main([*command, "--served"]) == 0
    (cell,) = json.loads((tmp_path / "out" / "summary.json").read_text())["matrix"]["cells"]
    assert (cell["robot"], cell["seconds"]) == ("mine", [0.5])
    assert cell["quantities"]["pace"]["mean"] < 1.05


def runs(*seconds):
    """Runs of so many seconds; 1.0 is the full duration, shorter ones fell."""
    ends = [FIGURES.verdict if s == 1.0 else verdict(Ending.FELL, f"fell at {s:.2f} s", s) for s in seconds]
    figures = [{"seconds": s, "torque": s, "verdict": end, "tracking": 0.002} for s, end in zip(seconds, ends, strict=True)]
    return Runs(folders=[], summaries=[msgspec.structs.replace(FIGURES, **each) for each in figures])


def test_claims_that_name_robots_leave_with_them(matrix, tmp_path):
    path = tmp_path / "named.toml"
    path.write_text(MATRIX + '[[matrix.check]]\nclaim = "solo12 stands"\nrobots = ["solo12"]\nat_least = 1.0\n')
    settings = of_robot(load_comparison(str(path)), tmp_path / "mine.toml").matrix
    outcomes = [decide_cells(check, settings, results_of(settings)) for check in settings.check]
    assert [(outcome.claim, outcome.holds) for outcome in outcomes] == [("all stand", True), ("torque is small", True)]


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
    assert (other.settings.duration, other.settings.robot) == (0.5, ImperfectionSettings())
    assert other.controller.law == ConeSettings(edges=8)
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
    return {cell: runs(1.0, fallen.get(f"{cell.robot}_{cell.case}", 1.0)) for cell in cells(matrix)}


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
def test_the_command_writes_a_picture_of_the_matrix(matrix, here, tmp_path, capsys):
    out, claims = tmp_path / "out", tmp_path / "claims.json"
    main(["compare", matrix, "--out", str(out), "--seeds", "1", "--json", str(claims)])
    assert len(here) == 2 * (8 + 1)
    assert [claim["claim"] for claim in json.loads(claims.read_text())] == ["all stand", "torque is small"]
    assert "quadruped · penalty" in capsys.readouterr().out
    html = (out / "report.html").read_text()
    assert html.count("data:image/png") == 1
    assert 'src="http' not in html
    assert (out / "matrix.png").read_bytes()[1:4] == b"PNG"
    summary = json.loads((out / "summary.json").read_text())["matrix"]
    assert (len(summary["cells"]), summary["cells"][0]["seconds"]) == (20, [pytest.approx(0.03)])
    for folder in (out / "runs").iterdir():  # of those that stand to the end, only the figures are kept
        whole = json.loads((folder / RESULT).read_text())["summary"]["verdict"]["upright"]
        assert (folder / TRACE).exists() is not whole
    assert not math.isnan(summary["cells"][0]["quantities"]["tracking"]["mean"])


SHIPPED = ("robustness", "robustness-losses", "laws-and-worlds", "estimated-base", "slopes", "stairs")
SHIPPED += ("speed-and-pushes", "getting-up")


@full
@pytest.mark.parametrize("name", SHIPPED)
def test_every_cell_of_a_shipped_matrix_makes_a_plan(name):
    comparison = load_comparison(name)
    found = list(cells(comparison.matrix))
    some = {(axis, getattr(cell, axis)): cell for cell in found for axis in ("part", "variant", "world", "law")}
    for cell in {*some.values(), *{(cell.robot, cell.case): cell for cell in found}.values()}:
        plan_of_cell(comparison, cell)
    assert {cell.case for cell in found} == set(comparison.matrix.cases)
    assert {cell.world for cell in found} == set(comparison.matrix.worlds)


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


@full
def test_the_matrix_covers_every_engine_and_every_predicting_law(comparison):
    elsewhere = {"sensed", "enumeration", "mujoco"}  # is told; takes two feet; is for one world
    for part in ("stance", "push", "trot"):
        found = [cell for cell in cells(comparison.matrix) if cell.part == part]
        engines = {type(plan_of_cell(comparison, cell).settings.engine) for cell in found if cell.law == "coulomb"}
        assert engines == set(get_args(AnyEngine)), NAMES
        assert {cell.law for cell in found} >= set(LAWS) - elsewhere


@full
@pytest.mark.parametrize("world", NAMES)
@pytest.mark.parametrize("law", ["no-slip", "coulomb", "cone"])
def test_a_stance_on_yielding_settings_is_predicted_within_half_a_per_cent_of_the_weight(summary, law, world):
    figures = summary("stance", world, law)
    assert figures.upright
    assert figures.force_error < 5e-3 * figures.weight
    assert figures.modes == {"ok": 1.0}


def short(name, **changes):
    race = load_race(name).race
    return msgspec.structs.replace(race, duration=3 * race.dt, trials=2, lasting=2, **changes)


@full
@pytest.mark.parametrize("name", ["d15-table-1", "d15-table-2", "d15-table-3"])
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


STUDY = Study(
    "Powers",
    "of numbers",
    sweeps={
        "powers": Sweep(((2, 3), {"squared": 2, "cubed": 3}), lambda base, exponent: base**exponent),
        "roots": Sweep(((4, 9),), np.sqrt),
    },
    tables=(
        lambda found: crossed("base", found["powers"], str),
        lambda found: listed("of", found["roots"].items(), {"root": "{:.0f}".format}),
    ),
    pictures=(Picture("a b, c", "roots", lambda found: picture([Plot(lines={"": ([1, 2], [*found["roots"].values()])})])),),
    notes=lambda found: [f"{len(found['powers'])} powers"],
)


def test_every_point_of_every_sweep_is_measured_once():
    seen = []
    found = measure(STUDY, lambda *news: seen.append(news))
    assert found["powers"] == {("2", "squared"): 4, ("2", "cubed"): 8, ("3", "squared"): 9, ("3", "cubed"): 27}
    assert found["roots"] == {"4": 2.0, "9": 3.0}
    assert seen[0] == (0, 6, "powers, 2, squared")
    assert seen[-1] == (5, 6, "roots, 9")


def test_a_report_has_tables_notes_and_pictures_and_no_headings_without_text(tmp_path):
    report = report_of(STUDY, measure(STUDY, lambda *_: None))
    assert report.tables[0] == [["base", "squared", "cubed"], ["2", "4", "8"], ["3", "9", "27"]]
    assert report.tables[1] == [["of", "root"], ["4", "2"], ["9", "3"]]
    assert report.text.endswith("4 powers")
    page = report.write(tmp_path, figures={"not finite": np.inf})
    assert page.read_text().count("data:image/png") == 1
    assert json.loads((tmp_path / "summary.json").read_text()) == {"not finite": None}
    assert (tmp_path / "a-b-c.png").read_bytes()[1:4] == b"PNG"
    report = Report("title", "lead")
    for level, text in ((2, "empty"), (2, "full"), (3, "part"), (3, "empty part"), (2, "empty, too")):
        report.heading(text, level)
        if text == "part":
            report.paragraph("words")
    assert report.text == "full\n\npart\n\nwords"


FEW = np.arange(1.0, 9.0)
PILE = Pile(t=FEW, iterations=FEW, momentum=1e-6 / FEW, contacts=FEW, seconds=FEW)
SHORT_PILE = {"pile": lambda _: PILE, "LONG_S": 2.0, "ORDER_S": 1.0}
FLAT_ONLY = {"SCENES": {"flat, μ 0.8": SCENES["flat, μ 0.8"]}, "ROBOTS": ("go2",), "SECONDS": 1.0}
PRESS_ONLY = {"RUNS": {"a foot presses 45 N": RUNS["a foot presses 45 N"]}, "SECONDS": 0.3}
PAGES = {  # study → its module and what is changed there, its pictures, words of its tables
    "cone-study": (cone_study, {"EDGES": (4, 8), "DRAGGED": 12}, {"edges.png"}, ["exact-cone", "8 edges"]),
    "contact-models": (contact_models, FLAT_ONLY, {"contact-models.png"}, ["no-slip", "Left out: TSID"]),
    "tasks": (tasks, PRESS_ONLY, {"tasks.png"}, ["a foot presses 45 N", "Left out: tsid, placo"]),
    "sap-study": (sap_study, SHORT_PILE, {"schemes.png", "clutter.png"}, ["midpoint", "order"]),
}


@pytest.mark.parametrize("name", fast(PAGES, "cone-study", "tasks"))
def test_the_page_of_a_study_has_its_tables_and_pictures(name, tmp_path, monkeypatch, capsys):
    module, changes, pictures, words = PAGES[name]
    for attribute, value in changes.items():
        monkeypatch.setattr(module, attribute, value)
    seeds = ["--seeds", "1"] if name == "contact-models" else []
    assert main(["compare", name, *seeds, "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", *pictures}
    printed = capsys.readouterr().out
    assert all(word in printed for word in words), printed


@full
def test_run_times_end_in_a_table_and_a_picture_and_all_answers_are_the_law_s_own(tmp_path, capsys):
    comparison = tmp_path / "times.toml"
    comparison.write_text('title = "run time"\ntiming = {robot = "quadruped", repeat = 3, contacts.id-lcp-mu = [1, 4]}\n')
    assert main(["compare", str(comparison), "--out", str(tmp_path / "out")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("ID(t)")]
    assert [(row[2], row[-1]) for row in rows] == [("1", "100.0"), ("4", "100.0")]
    assert {"times.png", "report.html"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_another_feed_forward_replaces_that_of_the_law():
    class Constant(FeedForward):
        def forecast(self, at, contacts, target):
            return Forecast(tau=np.full(12, 0.25), contacts=self._source.pick(contacts, target.schedule))

    settings = plan_of("go2", SCENES["flat, μ 0.8"]).controller
    own = build_controller(settings)
    controller = Controller(settings, own.robot, own.stance, Constant)
    state = State(q=own.stance, v=np.zeros(own.robot.nv))
    command = controller.step(state, controller.contacts(state), Inputs(dt=0.001))
    np.testing.assert_array_equal(command.tau_ff, 0.25)
    assert command.prediction is None


def test_an_interpreter_for_another_comparison_is_refused(capsys):
    assert "--tsid" in fails(capsys, "compare", "cone-study", "--tsid", "python")


@full
@pytest.mark.parametrize(("name", "count", "runs"), [("quadruped", 4, 3), ("g1", 6, 2)])
def test_shares_of_each_run_are_those_of_all_its_ticks(monkeypatch, name, count, runs):
    monkeypatch.setattr(bench_tasks, "TURNS", 1)
    monkeypatch.setattr(bench_tasks, "TROT", slice(600, 700))
    robot, stance = load_robot(name)
    assert len(bench_tasks.standing_tasks(robot, stance, bench_tasks.HANDS.get(name, ()), 0.0).tasks) == count
    found = bench_tasks.bench_tasks(name, {})
    assert sum(each["share"] for each in found.values()) == pytest.approx(runs)
    assert all(np.isfinite(list(each.values())).all() for each in found.values())
    assert not any(kind.endswith("several predictions") for kind in found)  # on slippery ground, too: one meets the limits
