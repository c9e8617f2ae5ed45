"""Studies as data; the studies of polygons, contact models, task controllers and the time of ticks."""

import json

import numpy as np
import pytest
from fast import full

from controllers.build import build_controller
from controllers.command import Inputs
from controllers.controller import Controller
from controllers.feedforward import FeedForward, Forecast
from controllers.robot.load import load_robot
from idyn import State
from sim_harness.commands.main import main
from sim_harness.report.plots import Plot, picture
from sim_harness.report.report import Report
from sim_harness.report.tables import crossed, listed
from sim_harness.studies import bench_tasks, cone_study, contact_models, tasks
from sim_harness.studies.contact_models import SCENES, plan_of
from sim_harness.studies.study import Picture, Study, Sweep, measure, report_of
from sim_harness.studies.tasks import RUNS

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


def test_the_page_of_polygons_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cone_study, "EDGES", (4, 8))
    monkeypatch.setattr(cone_study, "DRAGGED", 12)
    assert main(["compare", "cone-study", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"edges.png", "report.html"}
    printed = capsys.readouterr().out
    assert "exact-cone" in printed
    assert "8 edges" in printed


def test_run_times_end_in_a_table_and_a_picture_and_all_answers_are_the_law_s_own(tmp_path, capsys):
    comparison = tmp_path / "times.toml"
    comparison.write_text(
        'title = "run time"\n[timing]\nrobot = "quadruped"\nrepeat = 3\n[timing.contacts]\nid-lcp-mu = [1, 4]\n'
    )
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


def test_the_page_of_contact_models_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(contact_models, "SCENES", {"flat, μ 0.8": SCENES["flat, μ 0.8"]})
    monkeypatch.setattr(contact_models, "ROBOTS", ("go2",))
    monkeypatch.setattr(contact_models, "SECONDS", 1.0)
    assert main(["compare", "contact-models", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "contact-models.png"}
    printed = capsys.readouterr().out
    assert "no-slip" in printed
    assert "Left out: TSID" in printed


def test_the_page_of_tasks_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks, "RUNS", {"a foot presses 45 N": RUNS["a foot presses 45 N"]})
    monkeypatch.setattr(tasks, "SECONDS", 0.3)
    assert main(["compare", "tasks", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "tasks.png"}
    printed = capsys.readouterr().out
    assert "a foot presses 45 N" in printed
    assert "Left out: tsid, placo" in printed


def test_an_interpreter_for_another_comparison_is_refused(capsys):
    assert main(["compare", "cone-study", "--tsid", "python"]) == 2
    assert "--tsid" in capsys.readouterr().err


@full
@pytest.mark.parametrize(("name", "count", "runs"), [("quadruped", 4, 3), ("g1", 6, 2)])
def test_shares_of_each_run_are_those_of_all_its_ticks(monkeypatch, name, count, runs):
    monkeypatch.setattr(bench_tasks, "TURNS", 1)
    monkeypatch.setattr(bench_tasks, "TROT", slice(600, 700))
    robot, stance = load_robot(name)
    assert len(bench_tasks.standing_tasks(robot, stance, bench_tasks.HANDS.get(name, ()), 0.0).tasks) == count
    found = bench_tasks.bench_tasks(name)
    assert sum(each["share"] for each in found.values()) == pytest.approx(runs)
    assert all(np.isfinite(list(each.values())).all() for each in found.values())
    assert any(kind.endswith("several predictions") for kind in found)  # pushed on slippery ground
