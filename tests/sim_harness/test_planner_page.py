"""The code of docs/how-to/planner.md and the jump of docs/examples/planners work. `--crocoddyl PYTHON` plans anew."""

import runpy
import subprocess
import sys
import threading
import time

import msgpack
import numpy as np
import pytest
import zmq
from documents import ROOT, titled
from fast import full
from mujoco_robot import DT, MS, PERIOD, ClientRobot, DrivenRobot, MujocoRobot, served
from scipy.spatial.transform import Rotation

from controllers.config.loading import load
from controllers.settings import ControllerSettings
from idyn import Contact, Flat, StateMessage, contacts_from_geometry, load_robot
from idyn.model.so3 import tilt
from sim_harness.run.server_process import ServerProcess
from transport.server.settings import ServerSettings


def code(title):
    """The names that a block of the page defines."""
    names = {}
    exec(titled(title).text, names)
    return names


def example(path):
    """The names that a file of docs/examples defines."""
    return runpy.run_path(str(ROOT / "docs" / "examples" / path))


@full
def test_the_whole_body_controller_of_the_page():
    page, world, errors, guess = example("planners/whole_body.py"), MujocoRobot(*load_robot("go2")), [], None
    for k in range(5000):
        t = k * DT
        q, v = world.state
        prediction = page["control"](t, q, v, guess)
        guess = prediction.guess
        world.step(prediction.tau)
        if t > 4.0:
            foot = world.robot.frames.placement("FL_foot", q).translation
            wanted, _, _ = page["circle"](t - 2.0, 0.03, np.eye(3)[[0, 2]])
            errors.append(np.linalg.norm(foot - page["foot0"] - [0.0, 0.0, 0.06] - wanted))
        assert 0.8 < q[2] / world.stance[2] < 1.2
    assert 1e3 * np.sqrt(np.mean(np.square(errors))) < 1.0  # mm; the standing height differs from the stance


@full
def test_the_policy_of_the_page(tmp_path):
    """Joint targets swing by 0.05 rad; the joints follow, and the robot stands when the policy ends."""
    problems = []

    def run():
        try:
            code("policy")["follow"](server.endpoint, policy, 6.0)
        except BaseException as error:
            problems.append(error)

    with served(tmp_path, "go2", "policy") as (server, client):
        robot = ClientRobot("go2", client)
        stance = robot.robot.joint_angles(robot.stance)

        def policy(state):
            assert np.abs(state.q[:3] - robot.stance[:3]).max() < 0.1
            return stance + 0.05 * np.sin(2 * np.pi * 0.5 * robot.data.time) * np.tile([0.0, 1.0, -2.0], 4)

        planner = threading.Thread(target=run)
        planner.start()
        while planner.is_alive() or (not problems and "expired" not in robot.messages[-1]):
            robot.run(DT)
        assert not problems
        robot.run(1.0)
    q, v = robot.state
    assert np.abs(v).max() < 0.01
    assert np.ptp(np.array(robot.angles)[:, 1]) > 0.06
    assert 0.8 < q[2] / robot.stance[2] < 1.2


@full
def test_a_client_of_the_page_s_world_stands(tmp_path):
    heights, address, (robot, stance) = [], f"ipc://{tmp_path}/w", load_robot("quadruped")
    simulate = example("clients/python/mujoco_world.py")["simulate"]
    thread = threading.Thread(target=lambda: heights.append(simulate(address, "quadruped", 1000)))
    with served(tmp_path, "quadruped") as (_, client), zmq.Context() as context, context.socket(zmq.REQ) as world:
        thread.start()
        world.connect(address)
        tau = np.zeros(robot.na).tobytes()
        for _ in range(1000):
            world.send(msgpack.packb({"tau": tau}))
            seen = msgpack.unpackb(world.recv())
            feet = [Contact(frame=name) for name in seen["feet"]]
            reply = client.exchange(StateMessage(q=seen["q"], vel=seen["vel"], t_robot=seen["t_robot"], contacts=feet))
            assert reply is not None, client.error
            tau = bytes(reply.tau)
        thread.join()
    assert reply.status == "ok"
    assert len(feet) == 4
    assert abs(heights[0] / stance[2] - 1.0) < 0.02


@full
def test_the_client_loop_of_the_page(tmp_path):
    """go2 stands in MuJoCo."""
    world = MujocoRobot(*load_robot("go2"))

    class Body:
        def state(self):
            return world.state

        def touching(self):
            gaps = contacts_from_geometry(world.robot, world.state[0], Flat(), margin=0.01)
            return [key for key, gap in zip(gaps.keys, gaps.gaps, strict=True) if gap <= 0.0]

        def apply(self, tau):
            world.step(tau)

    settings = ServerSettings(controller="go2", endpoint=f"ipc://{tmp_path}/s")
    with ServerProcess(settings, load("controllers", "go2", ControllerSettings)) as server:
        mode = code("client loop")["run"](server.endpoint, Body(), 1.0)
    assert mode == "ok"
    assert abs(world.state[0][2] / world.stance[2] - 1.0) < 0.02
    assert np.abs(world.state[1]).max() < 0.05


SCRIPTS = ROOT / "docs" / "examples" / "planners"
GRAVITY = 9.81


@pytest.fixture(scope="module", params=["shipped", "new"])
def path(request, tmp_path_factory):
    if request.param == "shipped":
        return SCRIPTS / "jump.npz"
    if (python := request.config.getoption("crocoddyl")) is None:
        pytest.skip("needs --crocoddyl PYTHON, an interpreter of an environment with crocoddyl")
    path = tmp_path_factory.mktemp("plan") / "jump.npz"
    subprocess.run([python, SCRIPTS / "plan_jump.py", path], check=True, capture_output=True, text=True)
    return path


def test_the_plan_is_a_jump(path):
    """In the air the centre of mass of the robot, here by idyn's model, falls freely, and its angular momentum is constant."""
    plan, world = dict(np.load(path)), MujocoRobot(*load_robot("go2"))
    robot, stands = world.robot, plan["stands"]
    first, last = np.flatnonzero(~stands)[[0, -1]]
    assert 0.2 <= PERIOD * DT * (last - first + 1) <= 0.3
    assert not stands[first : last + 1].any()
    assert plan["joints"].tolist() == list(robot.joint_names)
    heights, momenta = [], []
    for k in range(first, last + 1):
        q, v = world.stance.copy(), np.zeros(robot.nv)
        q[:3], R = plan["position"][k], plan["rotation"][k]
        q[3:7] = Rotation.from_matrix(R).as_quat()
        q[robot.tree.q_index], v[robot.tree.a] = plan["angles"][k], plan["angle_velocity"][k]
        v[:3], v[3:6] = R.T @ plan["velocity"][k][:3], R.T @ plan["velocity"][k][3:]
        heights.append(robot.frames.center_of_mass(q)[2])
        momenta.append(robot.frames.momentum(q, v).angular)
    falls = np.diff(heights, 2) / (PERIOD * DT) ** 2
    np.testing.assert_allclose(falls, -GRAVITY, rtol=0.03)
    np.testing.assert_allclose(momenta, np.mean(momenta, axis=0)[None].repeat(len(momenta), axis=0), atol=0.03)


@full
def test_the_plan_is_realised(path):
    """Commands at 50 Hz, torques at 1 kHz; all by one clock."""
    plan, tasks_of = dict(np.load(path)), runpy.run_path(SCRIPTS / "follow_plan.py")["tasks_of"]
    run, rows = DrivenRobot("go2", valid=0.05), len(plan["position"])
    run.run(1.0)
    start, begin = run.q[:3].copy(), run.t

    def command(t):
        tasks, modes = tasks_of(plan, min(round((t - begin) / (PERIOD * DT)), rows - 1), start)
        return {"tasks": tasks, "modes": modes or None}

    run.run(rows * PERIOD * DT, command)
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


@pytest.mark.realtime
def test_a_process_of_its_own_makes_the_robot_jump(path, tmp_path):
    """The planner's process commands at 50 Hz; this process is the robot, in real time or slower. Foot switches."""
    world, rows = MujocoRobot(*load_robot("go2")), []
    with served(tmp_path, "go2", "jump") as (server, client):
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
