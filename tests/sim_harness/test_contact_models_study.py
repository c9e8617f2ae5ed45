"""The comparison of contact models below the same planner: figures against known motions, and the page.

TSID needs an environment of its own and is not tested here: `idyn compare contact-models --tsid PYTHON`.
"""

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fast import every

from controllers.build import build_controller
from controllers.command import Inputs
from controllers.controller import Controller
from controllers.feedforward import FeedForward, Forecast
from controllers.robot.load import load_robot
from idyn import ConfigError, State
from sim_harness.commands.main import main
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import terrain_of
from sim_harness.studies import contact_models
from sim_harness.studies.contact_models import SCENES, by_touch_down, outcome_of, plan_of, slip_of


@pytest.fixture(scope="module")
def standing():
    """A short run of go2 before its first step: robot, terrain, trace."""
    plan = plan_of("go2", SCENES["flat, μ 0.8"])
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, duration=0.1))
    robot, _ = load_robot("go2")
    return robot, terrain_of(plan), run_in_process(plan, "coulomb", lambda *_: None, seed=0).trace


def test_feet_that_are_dragged_slip_with_the_speed_of_the_robot(standing):
    robot, terrain, trace = standing
    v = np.zeros_like(trace.v)
    assert slip_of(msgspec.structs.replace(trace, v=v), robot, terrain) == 0.0
    v[:, :3] = 0.3, 0.4, 0.0  # a level base: in world axes, too
    level = trace.q.copy()
    level[:, 3:7] = 0.0, 0.0, 0.0, 1.0
    assert slip_of(msgspec.structs.replace(trace, q=level, v=v), robot, terrain) == pytest.approx(0.5, rel=1e-12)


def test_only_feet_with_load_slip(standing):
    robot, terrain, trace = standing
    assert np.isnan(slip_of(msgspec.structs.replace(trace, simulated=np.zeros_like(trace.simulated)), robot, terrain))


def test_errors_are_sorted_by_the_time_since_a_touch_down(standing):
    trace, n = standing[2], 100
    simulated = np.zeros((n, *trace.simulated.shape[1:]))
    simulated[30:60, 0, 0] = simulated[70:, 1, 0] = 50.0
    rows = msgspec.structs.replace(trace, simulated=simulated, t=np.arange(n) * 1e-3)
    error = np.zeros(n)
    error[30:50] = np.arange(20.0)
    error[70:90] = np.nan
    np.testing.assert_array_equal(by_touch_down(error, rows, 1e-3), np.arange(20.0))
    error[70:90] = 3.0 * np.arange(20.0)
    np.testing.assert_array_equal(by_touch_down(error, rows, 1e-3), 2.0 * np.arange(20.0))
    assert np.isnan(by_touch_down(np.full(n, np.nan), rows, 1e-3)).all()


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


@every(("python", "said"), [(sys.executable, "No module named 'tsid'"), ("/nowhere/python", "No such file")])
def test_an_environment_without_tsid_is_named(python, said):
    with pytest.raises(ConfigError, match=f"--tsid: .*{said}"):
        outcome_of("go2", SCENES["flat, μ 0.8"], "coulomb", Path(python), 0)


def test_the_page_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(contact_models, "SCENES", {"flat, μ 0.8": SCENES["flat, μ 0.8"]})
    monkeypatch.setattr(contact_models, "ROBOTS", ("go2",))
    monkeypatch.setattr(contact_models, "SECONDS", 1.0)
    assert main(["compare", "contact-models", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "contact-models.png"}
    printed = capsys.readouterr().out
    assert "no-slip" in printed
    assert "Left out: TSID" in printed
