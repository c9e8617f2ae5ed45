"""Tasks in MuJoCo, by `predict_tasks` and as commands of a planner. Figures: docs/results/tasks.md."""

import runpy

import msgspec
import numpy as np
import pytest
from documents import ROOT
from fast import first_is_fast, full
from mujoco_robot import DT, DrivenRobot, TaskRun, circle, follow, ramp, target

from idyn.errors import ConfigError
from idyn.tasks import ForceTask, FrameTask
from sim_harness.run.experiment import Listener
from sim_harness.run.plan import load_plan
from transport.protocol.messages.state import ExternalForce, Stance


def trunk_circle(radius=0.03, frequency=0.5, seconds=6.0, **world):
    """The trunk follows a circle in the horizontal plane, with constant attitude. The circle begins after one second, about the
    position where the robot then stands."""
    run, path, start = TaskRun(**world), circle(radius, frequency, (0, 1)), {}

    def tasks(t, q):
        if t <= 1.0:
            start["x"] = run.position("root_joint", q)
        return [follow("root_joint", path, t - 1.0, start["x"], rotation=np.eye(3))]

    return run.loop(seconds, tasks, lambda t, q: np.linalg.norm(q[:3] - start["x"] - path(t - 1.0)))


@pytest.mark.parametrize(
    ("world", "rms", "rate"),
    first_is_fast(
        [
            ({}, 0.15, 5.0),
            ({"law": "exact-cone"}, 0.15, 5.0),
            ({"ground": "firm"}, 0.15, 5.0),
            ({"ground": "stiff"}, 0.15, 5.0),
            ({"noise": 1.0}, 0.4, 100.0),
            ({"radius": 0.05, "frequency": 1.0, "mu": 0.15}, 60.0, np.inf),  # asks for 2.0 m/s², friction gives 1.5
        ]
    ),
)
def test_the_trunk_follows_a_circle(world, rms, rate):
    run = trunk_circle(**world)
    assert run.upright
    assert run.rms <= rms
    assert run.rate <= rate


@full
def test_a_free_foot_draws_a_circle_while_the_trunk_stands_on_three():
    run, start = TaskRun(), {}
    drawn = circle(0.03, 0.5, (0, 2))
    shift = np.array([-0.03, -0.03, 0.0])

    def path(t):
        return drawn(t) + np.array([0.0, 0.0, 0.06 * ramp(t)])

    def tasks(t, q):
        if t == 0.0:
            start["x"] = run.position("root_joint", q)
        if t <= 1.0:
            start["foot"] = run.position("FL_foot", q)
        trunk = FrameTask(frame="root_joint", position=start["x"] + ramp(t) * shift, rotation=np.eye(3))
        return [trunk] if t <= 1.0 else [trunk, follow("FL_foot", path, t - 1.0, start["foot"])]

    def error(t, q):
        return np.linalg.norm(run.position("FL_foot", q) - start["foot"] - path(t - 1.0))

    run.loop(6.0, tasks, error, without="FL_foot")
    assert run.upright
    assert run.rms <= 0.1
    assert run.rate <= 5.0


VALID = 0.05
"""Validity of a command [s]."""


def trunk(path, start, origin):
    """Tasks of a trunk whose origin follows a path that begins at time `start`, with constant attitude."""
    return lambda t: {"tasks": [follow("root_joint", path, t - start, origin, rotation=np.eye(3))]}


@full
def test_the_trunk_follows_a_circle_of_commands_and_stands_when_they_end():
    run = DrivenRobot("go2", valid=VALID)
    run.run(1.0)
    origin, path = run.q[:3].copy(), circle(0.03, 0.5, (0, 1))
    run.run(4.0, trunk(path, 1.0, origin))
    late = [(t, x, reply) for t, x, reply in run.replies if t > 3.0]
    errors = [np.linalg.norm(x - origin - path(t - 1.0)) for t, x, _ in late]
    torques = np.array([np.frombuffer(reply.tau) for _, _, reply in late])
    assert 1e3 * np.sqrt(np.mean(np.square(errors))) < 0.3  # mm
    assert np.abs(np.diff(torques, axis=0)).mean() / DT < 10.0  # N·m/s
    assert all(reply.message == "" and reply.status == "ok" for _, _, reply in late)
    assert {(task.name, task.met) for _, _, reply in late for task in reply.tasks} == {("root_joint", True)}
    end = run.t
    run.run(VALID + 1.0)
    last, _, _ = target(path, end - 1.0 + VALID)
    assert "expired" in run.replies[-1][2].message
    assert np.linalg.norm(run.replies[-1][1] - origin - last) < 5e-3
    before, after = run.replies[-100][1], run.replies[-1][1]
    assert np.linalg.norm(after - before) < 1e-4


@full
def test_positions_without_velocity_are_joined_smoothly():
    """Without transitions between the commands, the torque rate is 7.1 N·m/s, and the trunk 18 mm behind the circle."""
    run = DrivenRobot("go2", valid=VALID)
    run.run(1.0)
    origin, path = run.q[:3].copy(), circle(0.03, 0.5, (0, 1))
    run.run(3.0, lambda t: {"tasks": [FrameTask(frame="root_joint", position=origin + path(t - 1.0), rotation=np.eye(3))]})
    late = [(t, x, reply) for t, x, reply in run.replies if t > 2.0]
    torques = np.array([np.frombuffer(reply.tau) for _, _, reply in late])
    assert np.abs(np.diff(torques, axis=0)).mean() / DT < 4.0  # N·m/s
    errors = [np.linalg.norm(x - origin - path(t - 1.0)) for t, x, _ in late]
    assert 1e3 * np.sqrt(np.mean(np.square(errors))) < 8.0  # mm


@full
def test_a_foot_presses_as_commanded_and_an_impossible_task_is_reported():
    run = DrivenRobot("go2", valid=VALID)
    run.run(1.0)
    origin = run.q[:3].copy()
    still = trunk(lambda t: np.zeros(3), 0.0, origin)(0.0)["tasks"]
    run.run(1.0, tasks=[*still, ForceTask(contacts="FL_foot", normal=25.0)])
    forces = {each.frame: each.fn for each in run.replies[-1][2].contact_force}
    assert abs(forces["FL_foot"] - 25.0) < 0.01
    run.run(0.2, tasks=[*still, ForceTask(contacts="FL_foot", normal=400.0, level=1)])
    task = {each.name: each for each in run.replies[-1][2].tasks}["force of FL_foot"]
    assert not task.met
    assert task.missing > 100.0
    assert run.replies[-1][2].status == "ok"


def test_a_known_external_force_is_carried_by_less_contact_force():
    """A force of 40 N lifts the base, in the world and in the states: the feet carry the rest, with and without tasks."""
    run = DrivenRobot("go2", valid=VALID)
    run.data.xfrc_applied[1, 2] = 40.0
    lift = ExternalForce(frame="root_joint", wrench=[0.0, 0.0, 40.0, 0.0, 0.0, 0.0])
    run.run(1.0, state={"f_ext": lift})
    origin = run.q[:3].copy()
    for tasks in (None, trunk(lambda t: np.zeros(3), 0.0, origin)):
        run.run(0.5, tasks, state={"f_ext": lift})
        reply = run.replies[-1][2]
        assert abs(sum(each.fn for each in reply.contact_force) - (run.robot.weight - 40.0)) < 0.5
        assert abs(run.q[2] - origin[2]) < 1e-4
        assert reply.status == "ok"


def test_a_schedule_says_which_feet_stand():
    run = DrivenRobot("go2", valid=VALID, contact={"source": "planner"})
    run.run(0.5)
    lifted = [Stance(frame="FL_foot", stance=False, time_to_switch=0.5)]
    run.run(0.003, state={"schedule": lifted})
    assert {each.frame for each in run.replies[-1][2].contact_force if each.fn > 0.0} <= {"FR_foot", "RL_foot", "RR_foot"}
    run.run(0.003)
    assert "FL_foot" in {each.frame for each in run.replies[-1][2].contact_force}


def test_messages_and_tasks_are_counted():
    """Messages that differ by numbers are one line."""
    run = DrivenRobot("go2", valid=0.005)
    near, far = FrameTask(frame="root_joint", name="trunk", position=run.stance[:3]), [9.0, 0.0, 0.0]
    run.command([near, FrameTask(frame="root_joint", name="far", position=far, level=1)])
    run.run(0.02)
    said = [msgspec.structs.replace(reply, message=f"off by {k}.5 N·m") for k, (_, _, reply) in enumerate(run.replies)]

    class Client:
        error, replies = None, iter(said)

        def exchange(self, state):
            return next(self.replies)

    listener = Listener(Client())
    for _ in said:
        listener.exchange(None)
    tasks = [task for reply in said for task in reply.tasks if task.name == "far"]
    met, worst = sum(task.met for task in tasks), max(task.missing for task in tasks)
    assert listener.report()[0] == "in 20 ticks: off by 0.5 N·m"
    assert f"task far: met in {met} of {len(tasks)} ticks, at most {worst:.3g} m/s², rad/s² or N off" in listener.report()


PRESS = 20.0


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(ROOT / "docs" / "examples" / "arm" / "press_and_slide.py"))


@full
@pytest.mark.parametrize(("seconds", "share", "off"), [(5.0, 0.001, 1e-4), (1.0, 0.01, 2e-4)])
def test_the_force_is_as_asked_where_friction_is_slow(example, seconds, share, off):
    """At 19 and 94 mm/s in the middle of the line."""
    forces, worst = example["slide"](example["CONTACTS"]["slow friction"], seconds)
    assert np.abs(forces - PRESS).max() <= share * PRESS
    assert worst <= off


@full
def test_the_force_bounces_in_mujocos_default_contact(example):
    """As that of a sled that MuJoCo drags without any controller does. The mean is as asked, within a tenth."""
    forces, worst = example["slide"](example["CONTACTS"]["default"], 2.0)
    assert forces.min() == 0.0
    assert abs(forces.mean() / PRESS - 1.0) < 0.1
    assert worst < 1e-3


def test_a_friction_without_a_time_constant_is_refused(tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(
        '[controller]\nrobot = "go2"\n[experiment]\nlaws = ["coulomb"]\nduration = 1.0\n'
        '[experiment.engine]\nkind = "mujoco"\nsolreffriction = [0.0, 1.0]\n'
    )
    with pytest.raises(ConfigError, match="solreffriction: expected"):
        load_plan(str(path))
