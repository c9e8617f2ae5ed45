"""Robots that lie: how they start, what touches the ground in MuJoCo, and that they get up, served in process."""

import msgspec
import numpy as np
import pytest
from fast import every, fast, full
from scipy.spatial.transform import Rotation

from controllers.config.loading import load, parse
from controllers.robot.load import load_robot, shared_path
from idyn.errors import ConfigError
from sim_harness.measure.fall import base_tilt
from sim_harness.measure.verdict import Ending, judge
from sim_harness.run.experiment import run_in_process, task_of
from sim_harness.run.plan import ExperimentSettings, Plan, build_plan, simulated_robot
from sim_harness.shapes import collision_shapes

GO2 = shared_path("example-robot-data:go2_description/urdf/go2.urdf")
ROBOTS = ("go2", "a1", "solo12", "quadruped")


def plan_of(name: str, **changes: object) -> Plan:
    table = msgspec.to_builtins(load("experiments", f"get-up-{name}", ExperimentSettings)) | changes
    return build_plan(parse(table, ExperimentSettings, "test"))


def world_of(plan: Plan, seed: int | None = None):
    """The world at the start of a run; nobody answers."""
    return simulated_robot(plan, client=None, seed=seed).world  # type: ignore[arg-type]


@every(("pose", "tilt"), [("belly", 0.0), ("back", np.pi)])
def test_a_dropped_robot_rests_as_told_and_differs_by_seed(pose, tilt):
    plan = plan_of("quadruped", lying=pose)
    first, again, other = (world_of(plan, seed).q for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert base_tilt(first[None])[0] == pytest.approx(tilt, abs=0.3)


@pytest.mark.parametrize("robot", fast(ROBOTS, "go2", "quadruped"))
@every("hulls", [True, False])
def test_what_touches_the_ground_carries_the_weight(robot, hulls):
    """For half a second with limp legs: Σ f of all reported contacts is the weight, on meshes, boxes and spheres."""
    world = world_of(plan_of(robot, lying="back", robot={"hulls": hulls}))
    force = [world.step(None, 1e-3).impulse[:, 2].sum() / 1e-3 for _ in range(1000)]
    assert np.mean(force[500:]) == pytest.approx(world.robot.total_mass * 9.81, rel=0.02)


def test_the_lowest_point_of_a_collision_mesh_rests_on_the_ground():
    """Vertices of the meshes, placed by Pinocchio."""
    plan = plan_of("go2", lying="back")
    world = world_of(plan)
    robot, lowest = world.robot, np.inf
    rotations, origins = robot.place(world.q)
    for shape in collision_shapes(robot, list(GO2.resolve().parents))[0]:
        assert shape.mesh is not None
        turn = Rotation.from_quat(shape.placement[3:]).as_matrix()
        points = shape.mesh.vertices @ turn.T + shape.placement[:3]
        lowest = min(lowest, float((points @ rotations[shape.joint].T + origins[shape.joint])[:, 2].min()))
    assert lowest == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize(
    "pose",
    [pytest.param("back", marks=full), *(pytest.param(pose, marks=pytest.mark.long) for pose in ("belly", "left", "right"))],
)
def test_go2_gets_up_on_its_collision_shapes(pose):
    run = run_in_process(plan_of("go2", lying=pose), "coulomb", lambda *_: None, seed=1)
    summary = run.summary
    assert summary.verdict.ending is Ending.GOT_UP
    assert summary.risen < 6.5
    assert summary.torque_rate < 150.0
    assert summary.last_tracking < 1e-3
    assert base_tilt(run.trace.q[-1000:]).max() < 0.01
    _, stance = load_robot("go2-lying")
    assert run.trace.q[-1, 2] == pytest.approx(stance[2], abs=0.01)


@full
@pytest.mark.parametrize("robot", ["a1", "solo12", "quadruped"])
def test_other_robots_get_up_from_their_back(robot):
    summary = run_in_process(plan_of(robot), "coulomb", lambda *_: None, seed=1).summary
    assert summary.verdict.ending is Ending.GOT_UP
    assert summary.last_tracking < 6e-3


def test_a_robot_without_motion_did_not_get_up_and_one_that_rises_late_neither():
    """A short run from the belly, judged; and the same with the state of its first tick to the end."""
    plan = plan_of("quadruped", lying="belly", duration=3.0)
    run = run_in_process(plan, "coulomb", lambda *_: None, seed=0)
    robot, stance = load_robot(plan.controller.robot)
    assert run.summary.verdict.ending is Ending.GOT_UP
    since = run.summary.risen
    assert (run.trace.q[round(since / 1e-3) + 1 :, 2] > 0.5 * stance[2]).all()
    lay = msgspec.structs.replace(run.trace, q=np.repeat(run.trace.q[:1], len(run.trace), axis=0))
    task = task_of(plan.controller, stance)
    verdict = judge(lay, robot, task, ticks=plan.ticks, dt=1e-3)
    assert (verdict.ending, verdict.good, verdict.upright) == (Ending.LAY, False, False)


@every(
    ("changes", "where"),
    [
        ({"engine": "lcp"}, "experiment.robot.hulls"),
        ({"controller": {"contact": {"terrain": "slope"}}}, "experiment.robot.hulls"),
        ({"server": "arm", "controller": {}, "robot": {}}, "experiment.lying"),
    ],
)
def test_what_cannot_be_is_refused(changes, where):
    with pytest.raises(ConfigError, match=where):
        plan_of("go2", **changes)
