"""The demo's scene on slippery ground: laws differ, and the words say how."""

import math

import msgspec
import numpy as np
import pytest
from fast import full

from sim_harness.demo import friction_error, friction_picture, in_words, run_slide, slide_plan, slide_table, worst_share


def quiet(done, total=0, name=""):
    pass


@pytest.fixture(scope="module")
def runs():
    plan = msgspec.structs.replace(slide_plan(), settings=msgspec.structs.replace(slide_plan().settings, duration=1.5))
    return plan, run_slide(plan, quiet)


@full
def test_only_the_no_slip_law_expects_impossible_friction(runs):
    plan, (no_slip, coulomb, cone) = runs
    assert worst_share(no_slip.trace, 0.15) > 1.5
    assert worst_share(coulomb.trace, 0.15) == pytest.approx(1.0, abs=1e-9)
    assert worst_share(cone.trace, 0.15) == pytest.approx(1.0, abs=1e-9)
    assert friction_error(no_slip.trace) > 3.0 * friction_error(coulomb.trace)
    assert cone.summary.force_error > 3.0 * coulomb.summary.force_error  # a sliding contact rises in this law
    heading, *rows = slide_table(plan, [no_slip, coulomb, cone])
    assert [row[0] for row in rows] == ["no-slip", "coulomb", "cone"]
    assert all(row[1].startswith("slid") for row in rows)
    words = [row[heading.index("in words")] for row in rows]
    assert words[0].startswith("wrong: expects")
    assert words[1] == "right: friction within its limit; least errors"
    assert "normal forces" in words[2]
    assert friction_picture(plan, [no_slip]).startswith(b"\x89PNG")


@full
def test_friction_is_compared_with_the_limit_of_each_loaded_foot(runs):
    _, (run, *_) = runs
    forces = np.zeros((8, 2, 3))
    forces[:, 0] = 10.0, 0.9, 1.2  # 1.5 of 10 N
    forces[7, 1] = 0.1, 5.0, 0.0  # not loaded
    simulated = forces.copy()
    simulated[6, 0, 1] += 0.5
    trace = msgspec.structs.replace(run.trace, predicted=forces, simulated=simulated)
    assert worst_share(trace, 0.3) == pytest.approx(0.5)
    assert friction_error(trace) == pytest.approx(0.5 / 6)  # 3 ticks of 2 feet after the first 5
    known = msgspec.structs.replace(run, trace=trace)
    assert in_words(known, [known], 0.1).startswith("wrong: expects 1.5 times")
    assert not math.isnan(friction_error(run.trace))
