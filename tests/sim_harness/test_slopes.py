"""Robots that trot on slopes and stairs in MuJoCo, served in process."""

import msgspec
import numpy as np
import pytest
from fast import full

from controllers.build import changed
from controllers.config.loading import load, parse
from idyn.errors import ConfigError
from sim_harness.measure.fall import base_tilt
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import ExperimentSettings, build_plan, with_controller

STEEP = {"kind": "slope", "angle": 0.349}
SLOW = {"gait": {"period": 0.5, "duty": 0.7, "step_height": 0.06}, "path": {"speed": 0.3}}
STAIRS = {"kind": "stairs", "start": 0.35, "depth": 0.3, "rise": 0.1, "steps": 6}


def trot(robot, seconds, world, controller):
    """Run in MuJoCo with foot switches on a terrain, which the controller may not know."""
    settings = load("experiments", f"trot-{robot}", ExperimentSettings)
    table = msgspec.to_builtins(settings)
    table["robot"]["ground"]["terrain"] = world
    table |= {"engine": "mujoco", "contacts": "binary", "duration": seconds, "laws": ["coulomb"]}
    table["controller"] = {"reference": {"path": {"waypoints": [[20.0, 0.0]]}}}
    plan = with_controller(build_plan(parse(table, ExperimentSettings, "test")), {"law": "coulomb", **controller})
    return run_in_process(plan, "coulomb", lambda label, ticks: None)


@full
@pytest.mark.parametrize("direction", [0.0, np.pi, np.pi / 2], ids=["up", "down", "across"])
@pytest.mark.parametrize("robot", ["go2", "quadruped"])
def test_a_trot_on_a_steep_slope_as_shipped(robot, direction):
    """20 degrees, known from the standing feet only; the base leans with the ground."""
    run = trot(robot, 4.0, {**STEEP, "direction": direction}, {})
    assert run.summary.upright
    assert run.summary.tracking < 0.005
    assert run.summary.drift > 0.4
    np.testing.assert_allclose(np.median(base_tilt(run.trace.q)[-1000:]), 0.349, atol=0.02)


@full
def test_a_trot_on_a_slope_without_following_it_falls():
    """What the estimate is for: with a level base the same robot falls on half of that slope."""
    ground = {**STEEP, "angle": 0.1745}
    assert not trot("go2", 2.0, ground, {"contact": {"terrain": "flat"}}).summary.upright


@full
def test_a_trot_up_stairs_that_it_knows():
    """Feet stay away from edges: all standing feet are on treads, and the robot is two steps up after 5 s."""
    gait = {"period": 0.5, "duty": 0.7, "step_height": 0.06}
    reference = {"gait": gait, "path": {"speed": 0.3}}
    run = trot("go2", 5.0, STAIRS, {"contact": {"terrain": STAIRS}, "reference": reference})
    assert run.summary.upright
    assert run.summary.tracking < 0.006
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 0.2


@full
@pytest.mark.parametrize(
    ("robot", "rise", "gait"), [("go2", 0.05, SLOW), ("a1", 0.05, SLOW), ("go2", 0.03, {}), ("solo12", 0.03, {})]
)
def test_a_trot_up_stairs_that_it_does_not_know(robot, rise, gait):
    """Steps of 5 cm with high swings, and of 3 cm with the shipped gait: the feet find the steps."""
    run = trot(robot, 6.0, {**STAIRS, "rise": rise}, {"reference": gait, "alarms": {"switch_air": 0.12}})
    assert run.summary.upright
    assert run.summary.tracking < 0.01
    assert run.trace.q[-1, 2] - run.trace.q[0, 2] > 3.5 * rise


def test_a_setting_of_the_ground_that_does_not_exist_is_refused():
    plan = build_plan(load("experiments", "trot-go2", ExperimentSettings))
    with pytest.raises(ConfigError, match=r"contact\.terrain"):
        changed(plan.controller, {"contact": {"terrain": "steep"}})
