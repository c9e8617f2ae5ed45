"""Runs with known ends get the right verdict and exit code, from `idyn simulate` and from their logs."""

import pytest
from fast import full
from known_ends import AHEAD, KNOWN, TROT, WET, ended, table

from sim_harness.commands.main import main
from sim_harness.measure.verdict import Ending
from sim_harness.run.experiment import run_in_process, run_served
from sim_harness.run.logs import logged_runs
from sim_harness.run.plan import load_plan, with_controller

FAST = {
    "is pushed over",
    "carries its box with smooth fingers",
    "carries its box",
    "is turned on ice",
    "has a post below its rear",
}
LOGGED = {"is pushed over", "is pushed on ice", "shall sway by a law that keeps it still", "walks on wet ice",
          "carries its box", "carries its box with smooth fingers", "tells a speed of 50 rad/s at rest",
          "walks along its path", "has motors of a fiftieth of their torque", "turns in place", "is turned on ice",
          "is pushed on ice while it trots in place", "is 60 % heavier than believed"}  # fmt: skip


def test_forty_runs_have_all_endings():
    assert len(KNOWN) >= 40
    assert len({known.what for known in KNOWN}) == len(KNOWN)
    assert {known.ending for known in KNOWN} >= set(Ending)
    rows = table({"is pushed": ("fell", 1), "waits": ("stood", 0), "sways": ("stood", 1)}).splitlines()[2:]
    assert sorted(rows) == ["| fell | 1 | is pushed |", "| stood | 0 | waits |", "| stood | 1 | sways |"]


@pytest.mark.parametrize(
    "known",
    [pytest.param(known, marks=() if known.what in FAST else pytest.mark.long) for known in KNOWN],
    ids=[known.what for known in KNOWN],
)
def test_a_run_is_named_by_its_end(known, tmp_path, capsys):
    code, verdict = ended(known, tmp_path)
    assert (verdict["ending"], code) == (known.ending, known.exit_code)
    assert known.text in verdict["text"]
    said = capsys.readouterr().out
    assert verdict["text"] in said
    assert all(line in said for line in verdict["noted"])
    assert known.noted in "".join(verdict["noted"])


@full
@pytest.mark.parametrize("known", [known for known in KNOWN if known.what in LOGGED], ids=lambda known: known.what)
def test_a_log_has_the_verdict_of_its_run(known, tmp_path, capsys):
    """The server's log of the run; a robot that fell is fallen in it, and `idyn replay` says so, too."""
    path, log = tmp_path / "experiment.toml", tmp_path / "log.mcap"
    path.write_text(known.toml, encoding="utf-8")
    plan = load_plan(str(path))
    plan = with_controller(plan, {"law": plan.settings.laws[0]})
    run = run_in_process(plan, "", lambda *_: None, log=log)
    (logged,) = logged_runs(log)
    assert (logged.verdict.ending, run.summary.verdict.ending) == (known.ending, known.ending)
    assert logged.verdict.at == pytest.approx(run.summary.verdict.at, abs=1e-9)
    assert known.text in logged.verdict.text
    unslipped = [
        line for line in run.summary.verdict.noted if " slipped " not in line
    ]  # a log of no sensed forces knows no slips
    assert list(logged.verdict.noted) == unslipped
    assert main(["compare", str(log)]) == known.exit_code
    assert logged.verdict.text in capsys.readouterr().out
    assert main(["replay", str(log)]) == 0
    assert logged.verdict.text in capsys.readouterr().out


@full
def test_the_verdict_and_its_notes_are_the_same_over_the_wire_and_in_the_view(tmp_path, capsys):
    """A server in a process of its own, and the page of the run that it wrote."""
    path = tmp_path / "experiment.toml"
    path.write_text(TROT.replace("3.0", "1.2") + AHEAD + WET + "robot.trunk.mass_factor = 1.6\n", encoding="utf-8")
    plan = load_plan(str(path))
    here = run_in_process(with_controller(plan, {"law": "coulomb"}), "", lambda *_: None).summary.verdict
    there = run_served(plan, "coulomb", tmp_path / "run", lambda *_: None).summary.verdict
    assert {word for line in here.noted for word in ("slipped", "degraded") if word in line} == {"slipped", "degraded"}
    assert (there.whole, there.noted) == (here.whole, here.noted)
    assert main(["view", str(tmp_path / "run")]) == 0
    assert here.whole in capsys.readouterr().out


@full
def test_a_walk_is_so_far_only_in_a_log_that_ends_early(tmp_path):
    path, log = tmp_path / "experiment.toml", tmp_path / "log.mcap"
    path.write_text(TROT + AHEAD, encoding="utf-8")
    plan = load_plan(str(path))
    run_in_process(with_controller(plan, {"law": "coulomb"}), "", lambda *_: None, log=log)
    (whole,) = logged_runs(log)
    assert "so far" not in whole.verdict.text
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 9 // 10])
    (cut,) = logged_runs(log)
    assert cut.verdict.text.endswith(" m so far")
