"""The demo: its words agree with its verdicts, also on slippery ground, and its exit code with what is expected."""

import json
import math

import msgspec
import numpy as np
import pytest
from cli import prints
from fast import every, full
from stands import quiet
from test_compare import FELL, FIGURES

from sim_harness import demo
from sim_harness.commands.main import main
from sim_harness.measure.verdict import GOOD, Ending, verdict

GOOD_RUN = msgspec.structs.replace(FIGURES, label="coulomb", tracking=0.002, substituted=0.0)


@every("ending", Ending)
def test_a_verdict_is_right_or_wrong_as_it_is_good_or_not(ending):
    run = msgspec.structs.replace(GOOD_RUN, verdict=verdict(ending, "so it ended"))
    text = demo.right_and_wrong(run, [run])
    assert text.startswith("right: so it ended" if ending in GOOD else "wrong: so it ended")
    assert text.count("so it ended") == 1


def test_each_figure_is_on_the_side_where_it_belongs():
    text = demo.right_and_wrong(GOOD_RUN, [GOOD_RUN])
    assert text == "right: stood 1.0 s; contact forces foreseen to 1 %; joints within 2 mrad"
    changes = {"force_error_relative": 0.4, "tracking": 0.09, "substituted": 0.25, "torque_rate": 5.0, "label": "convex"}
    bad = msgspec.structs.replace(GOOD_RUN, verdict=FELL, **changes)
    text = demo.right_and_wrong(bad, [GOOD_RUN, bad])
    assert text == (
        "wrong: fell at 0.50 s; contact forces wrong by 40 %; joints 90 mrad off; another law answered 25 % of the ticks; "
        "torques change 5 times as fast as with coulomb"
    )
    assert "torques" not in demo.right_and_wrong(bad, [bad])  # a run that was cut short is nothing to compare with
    blind = msgspec.structs.replace(GOOD_RUN, force_error_relative=math.nan, tracking=math.nan)
    assert demo.right_and_wrong(blind, [blind]) == "right: stood 1.0 s"


@full
@pytest.mark.parametrize(("more", "code"), [("", 1), ('may_fail = ["convex"]\n', 0)])
def test_the_exit_code_is_that_of_the_laws_that_must_not_fail(more, code, tmp_path, capsys):
    """Under the law 'convex' the robot does not sway."""
    experiment, figures = tmp_path / "experiment.toml", tmp_path / "figures.json"
    experiment.write_text(
        'server = "paper-stand"\nlaws = ["coulomb", "convex"]\nengine = "lcp"\npaced = false\nduration = 1.0\n'
        f'controller.reference = {{ kind = "sway" }}\n{more}'
    )
    assert main(["demo", str(experiment), "--out", str(tmp_path / "out"), "--json", str(figures)]) == code
    endings = {summary["label"]: summary["verdict"]["ending"] for summary in json.loads(figures.read_text())}
    assert endings == {"coulomb": "stood", "convex": "never moved"}
    out = capsys.readouterr().out
    assert "right: stood 1.0 s" in out
    assert "wrong: never moved" in out
    assert ("convex: expected to fail in this experiment, and did: never moved" in out) is ("convex" in more)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "wrong: never moved" in report
    assert "convex: never moved" in prints(capsys, "view", str(tmp_path / "out"))


@pytest.fixture(scope="module")
def runs():
    plan = demo.slide_plan()
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, duration=1.5))
    return plan, demo.run_slide(plan, quiet)


@full
def test_only_the_no_slip_law_expects_impossible_friction(runs):
    plan, (no_slip, coulomb, cone) = runs
    assert demo.worst_share(no_slip.trace, 0.15) > 1.5
    assert demo.worst_share(coulomb.trace, 0.15) == pytest.approx(1.0, abs=1e-9)
    assert demo.worst_share(cone.trace, 0.15) == pytest.approx(1.0, abs=1e-9)
    assert demo.friction_error(no_slip.trace) > 3.0 * demo.friction_error(coulomb.trace)
    assert cone.summary.force_error > 3.0 * coulomb.summary.force_error  # a sliding contact rises in this law
    heading, *rows = demo.slide_table(plan, [no_slip, coulomb, cone])
    assert [row[0] for row in rows] == ["no-slip", "coulomb", "cone"]
    assert all(row[1].startswith("slid") for row in rows)
    words = [row[heading.index("in words")] for row in rows]
    assert words[0].startswith("wrong: expects")
    assert words[1] == "right: friction within its limit; least errors"
    assert "normal forces" in words[2]
    assert demo.friction_picture(plan, [no_slip]).startswith(b"\x89PNG")


@full
def test_friction_is_compared_with_the_limit_of_each_loaded_foot(runs):
    _, (run, *_) = runs
    forces = np.zeros((8, 2, 3))
    forces[:, 0] = 10.0, 0.9, 1.2  # 1.5 of 10 N
    forces[7, 1] = 0.1, 5.0, 0.0  # not loaded
    simulated = forces.copy()
    simulated[6, 0, 1] += 0.5
    trace = msgspec.structs.replace(run.trace, predicted=forces, simulated=simulated)
    assert demo.worst_share(trace, 0.3) == pytest.approx(0.5)
    assert demo.friction_error(trace) == pytest.approx(0.5 / 6)  # 3 ticks of 2 feet after the first 5
    known = msgspec.structs.replace(run, trace=trace)
    assert demo.in_words(known, [known], 0.1).startswith("wrong: expects 1.5 times")
    assert not math.isnan(demo.friction_error(run.trace))
