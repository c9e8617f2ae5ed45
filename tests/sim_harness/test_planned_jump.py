"""A jump in place of go2, planned by Crocoddyl: the plan, and how idyn realises it in MuJoCo. The scripts are those of
docs/examples/planners. `--crocoddyl PYTHON` plans anew; otherwise the plan beside the scripts is used."""

import runpy
import subprocess
import sys
import time

import numpy as np
import pytest
from documents import ROOT
from fast import full
from test_commanded_tasks import PERIOD, Planned
from test_planner_page import DT, MS, World, ready

from controllers.config.loading import load
from controllers.robot.attitude import tilt
from controllers.settings import ControllerSettings
from idyn import Flat, contacts_from_geometry
from sim_harness.run.server_process import ServerProcess
from transport.protocol.messages.state import Contact, StateMessage
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.settings import ServerSettings

SCRIPTS = ROOT / "docs" / "examples" / "planners"
GRAVITY = 9.81


def plan_with(python, folder):
    """The plan that an interpreter's Crocoddyl makes, as a file."""
    path = folder / "jump.npz"
    subprocess.run([python, SCRIPTS / "plan_jump.py", path], check=True, capture_output=True, text=True)
    return path


@pytest.fixture(scope="module", params=["shipped", "new"])
def path(request, tmp_path_factory):
    if request.param == "shipped":
        return SCRIPTS / "jump.npz"
    if (python := request.config.getoption("crocoddyl")) is None:
        pytest.skip("needs --crocoddyl PYTHON, an interpreter of an environment with crocoddyl")
    return plan_with(python, tmp_path_factory.mktemp("plan"))


def test_the_plan_is_a_jump(path):
    """In the air the centre of mass of the robot, here by idyn's model, falls freely, and its angular momentum is constant."""
    plan, world = dict(np.load(path)), World()
    robot, stands = world.robot, plan["stands"]
    first, last = np.flatnonzero(~stands)[[0, -1]]
    assert 0.2 <= PERIOD * DT * (last - first + 1) <= 0.3
    assert not stands[first : last + 1].any()
    assert plan["joints"].tolist() == list(robot.joint_names)
    heights, momenta = [], []
    for k in range(first, last + 1):
        q, v = world.stance.copy(), np.zeros(robot.nv)
        q[:3], R = plan["position"][k], plan["rotation"][k]
        q[3:7] = quaternion(R)
        q[robot.tree.q_index], v[robot.tree.a] = plan["angles"][k], plan["angle_velocity"][k]
        v[:3], v[3:6] = R.T @ plan["velocity"][k][:3], R.T @ plan["velocity"][k][3:]
        heights.append(robot.frames.center_of_mass(q)[2])
        momenta.append(robot.frames.momentum(q, v).angular)
    falls = np.diff(heights, 2) / (PERIOD * DT) ** 2
    np.testing.assert_allclose(falls, -GRAVITY, rtol=0.03)
    np.testing.assert_allclose(momenta, np.mean(momenta, axis=0)[None].repeat(len(momenta), axis=0), atol=0.03)


def quaternion(R):
    """x, y, z, w of a rotation by less than a right angle."""
    w = 0.5 * np.sqrt(1.0 + np.trace(R))
    return np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 4 * w * w]) / (4 * w)


@full
def test_the_plan_is_realised(path):
    """Commands at 50 Hz, torques at 1 kHz; all by one clock."""
    plan, tasks_of = dict(np.load(path)), runpy.run_path(SCRIPTS / "follow_plan.py")["tasks_of"]
    run, rows = Planned(), len(plan["position"])
    run.run(1.0)
    start, begin = run.q[:3].copy(), run.t

    def row(t):
        return min(round((t - begin) / (PERIOD * DT)), rows - 1)

    run.run(rows * PERIOD * DT, lambda t: tasks_of(plan, row(t), start)[0], lambda t: tasks_of(plan, row(t), start)[1] or None)
    planned = plan["position"] - plan["position"][0]
    at = [(t, x - start, reply) for t, x, reply in run.replies if t > begin]
    errors = np.array([np.linalg.norm(x - planned[k]) for k in range(rows) for _, x, _ in at[k * PERIOD : k * PERIOD + 1]])
    flies = [sum(each.fn for each in reply.contact_force) == 0.0 for _, _, reply in at]
    assert max(x[2] for _, x, _ in at) > 0.07
    assert 0.18 <= DT * sum(flies) <= 0.28
    assert errors.max() < 0.02
    assert {reply.status for _, _, reply in at} == {"ok"}
    run.run(1.0)
    assert np.linalg.norm(run.q[:3] - start) < 0.01
    assert tilt(run.q[3:7]) < 0.005


@full
def test_a_process_of_its_own_makes_the_robot_jump(path, tmp_path):
    """The planner's process commands at 50 Hz; this process is the robot, in real time or slower. Foot switches."""
    settings = ServerSettings(controller="go2", planners=("jump", "probe"), endpoint=f"ipc://{tmp_path}/s")
    world, rows = World(), []
    with (
        ServerProcess(settings, load("controllers", "go2", ControllerSettings)) as server,
        RobotClient(server.endpoint, hello_for(world.robot, DT, kind="sim"), deadline_ms=5000) as client,
    ):
        client.hello()
        ready(server.endpoint)
        command = [sys.executable, SCRIPTS / "follow_plan.py", server.endpoint, path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as planner:
            due = time.monotonic()
            while planner.poll() is None:
                q, v = world.state
                gaps = contacts_from_geometry(world.robot, q, Flat(), margin=0.05)
                feet = [Contact(frame=key) for key, gap in zip(gaps.keys, gaps.gaps, strict=True) if gap <= 0.0]
                t = (len(rows) + 1) * MS
                reply = client.exchange(StateMessage(q=q.tobytes(), vel=v.tobytes(), t_robot=t, contacts=feet))
                assert reply is not None, client.error
                world.step(np.frombuffer(reply.tau))
                rows.append((q[2], tilt(q[3:7]), len(feet), reply.message))
                due = max(due + DT, time.monotonic() - DT)
                time.sleep(max(0.0, due - time.monotonic()))
            said = planner.stdout.read()
    assert planner.returncode == 0
    height, tilts, feet, messages = (list(each) for each in zip(*rows, strict=True))
    assert said.startswith("base: ")
    assert not any("foot switch" in message for message in messages)
    assert max(height) - world.stance[2] > 0.05
    assert DT * sum(n == 0 for n in feet) > 0.15
    assert max(tilts) < 0.1
    assert tilts[-1] < 0.01
