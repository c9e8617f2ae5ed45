"""The demo: the sentence about each law agrees with its verdict, and the exit code with what the experiment expects."""

import json
import math

import msgspec
import pytest
from fast import every, full
from test_compare_claims import FELL, SUMMARY

from sim_harness.commands.main import main
from sim_harness.demo import laws_table, right_and_wrong
from sim_harness.measure.verdict import GOOD, Ending, verdict

GOOD_RUN = msgspec.structs.replace(SUMMARY, label="coulomb", tracking=0.002, substituted=0.0)


@every("ending", Ending)
def test_a_verdict_is_right_or_wrong_as_it_is_good_or_not(ending):
    run = msgspec.structs.replace(GOOD_RUN, verdict=verdict(ending, "so it ended"))
    text = right_and_wrong(run, [run])
    assert text.startswith("right: so it ended" if ending in GOOD else "wrong: so it ended")
    assert text.count("so it ended") == 1


def test_each_figure_is_on_the_side_where_it_belongs():
    assert right_and_wrong(GOOD_RUN, [GOOD_RUN]) == "right: stood 1.0 s; contact forces foreseen to 1 %; joints within 2 mrad"
    changes = {"force_error_relative": 0.4, "tracking": 0.09, "substituted": 0.25, "torque_rate": 5.0, "label": "convex"}
    bad = msgspec.structs.replace(GOOD_RUN, verdict=FELL, **changes)
    text = right_and_wrong(bad, [GOOD_RUN, bad])
    assert text == (
        "wrong: fell at 0.50 s; contact forces wrong by 40 %; joints 90 mrad off; another law answered 25 % of the ticks; "
        "torques change 5 times as fast as with coulomb"
    )
    assert "torques" not in right_and_wrong(bad, [bad])  # a run that was cut short is nothing to compare with
    blind = msgspec.structs.replace(GOOD_RUN, force_error_relative=math.nan, tracking=math.nan)
    assert right_and_wrong(blind, [blind]) == "right: stood 1.0 s"


def test_each_row_of_the_table_ends_with_its_sentence():
    fell = msgspec.structs.replace(GOOD_RUN, verdict=FELL, label="convex")
    heading, *rows = laws_table([GOOD_RUN, fell])
    assert [row[0] for row in rows] == ["coulomb", "convex"]
    assert [row[-1] for row in rows] == [right_and_wrong(each, [GOOD_RUN, fell]) for each in (GOOD_RUN, fell)]
    assert heading[-1] == "in words"


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
    assert main(["view", str(tmp_path / "out")]) == 0
    assert "convex: never moved" in capsys.readouterr().out
