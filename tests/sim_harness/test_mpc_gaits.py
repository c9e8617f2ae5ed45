"""Gaits of the model-predictive planner in MuJoCo: velocities, torque rates, the planner's death, replay, and the command."""

import itertools
import json
import signal
import subprocess
import sys
import threading

import msgspec
import numpy as np
import pytest
from fast import first_is_fast, full

from controllers.build import build_controller
from controllers.planners import rigid_body
from controllers.planners.mpc import MpcPlanner, MpcSettings
from idyn.model.so3 import tilt
from idyn.status import Status
from sim_harness.commands.main import build_parser
from sim_harness.commands.plan import run_plan
from sim_harness.run.experiment import run_connected
from sim_harness.run.plan import simulated_robot
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.mpc import DEATHS, DIES, SPEEDS, Planned, gait_of, outcome_of, plan_of
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay

RATES = {"go2": 420.0, "a1": 320.0, "solo12": 45.0}
"""Largest mean |dτ/dt| [N·m/s]; the bound has the largest."""


@full
@pytest.mark.parametrize(("robot", "pattern"), [*(("go2", pattern) for pattern in SPEEDS), ("a1", "trot"), ("solo12", "bound")])
def test_robots_go_as_fast_as_commanded_in_every_pattern(robot, pattern):
    summary = outcome_of(robot, pattern, True, 1, seconds=4.0).summary
    assert summary.upright
    assert abs(summary.left) < 0.02
    assert abs(summary.turn) < 0.02
    assert summary.distance > 0.8 * SPEEDS[pattern] * summary.seconds  # from a standing start, with 1 m/s²
    assert summary.torque_rate < RATES[robot]
    assert summary.modes["ok"] > 0.97


@pytest.mark.parametrize("k", first_is_fast([5, 8]))
def test_a_robot_stands_after_its_planner_died(k):
    dies = DIES + k * gait_of("go2", "trot").period / DEATHS
    summary = outcome_of("go2", "trot", True, 0, dies, dies + 2.0).summary
    assert summary.upright
    assert summary.tilt < 0.15


@full
def test_commands_change_live_and_a_log_is_replayed_bit_for_bit(tmp_path):
    plan = plan_of("go2", "trot", True, 5.0)
    controller = build_controller(plan.controller)
    planner = MpcPlanner(controller.robot, controller.stance, MpcSettings(gait=gait_of("go2", "trot")))
    server = msgspec.structs.replace(plan.server, planners=("plan",))
    log = Recorder(tmp_path / "log.mcap", attachments(controller.snapshot(), server), metadata(controller.robot, 0))

    def steer(t):
        planner.path.steer(np.array([0.4, 0.0, 0.0] if t < 3.0 else [0.0, 0.0, 0.8]))
        if round(100 * t) in (100, 200):
            planner.adopt(gait_of("go2", "pace" if t < 1.5 else "bound"))

    client = Planned(plan, controller, planner, 100.0, steer=steer, recorder=log)
    trace = simulated_robot(plan, client, seed=0).run(5.0)
    log.close()
    assert client.refusals == []
    assert max(tilt(q[3:7]) for q in trace.q) < 0.25
    qx, qy, qz, qw = trace.q[-1500:, 3:7].T
    yaw = np.unwrap(np.arctan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy**2 + qz**2)))
    assert (yaw[-1] - yaw[0]) / 1.5 == pytest.approx(0.8, abs=0.08)
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 5000


@pytest.fixture
def served(tmp_path):
    """Starts go2 for some seconds with a server in a process of its own; the robot waits for late answers. Returns the
    endpoint, and a function that waits for the end of the run."""
    plan = plan_of("go2", "trot", True, 12.0)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, paced=True, patience=1.0))
    server = msgspec.structs.replace(plan.server, endpoint=f"ipc://{tmp_path}/server", planners=("plan",), controller="go2")
    with ServerProcess(server, plan.controller) as process:
        runs = []
        robot = threading.Thread(target=lambda: runs.append(run_connected(plan, process.endpoint, "go2", lambda *_: None)))
        robot.start()

        def end():
            robot.join(200)
            return runs[0]

        yield process.endpoint, end
        robot.join(200)


PATTERNS = pytest.mark.parametrize("pattern", [pytest.param("stand", marks=full), pytest.param("trot", marks=pytest.mark.long)])
"""The planner is in real time beside robot and server: where other programs need the cores, its plans come late, and a robot
that trots may fall. One that stands does not."""

SPEED = {"stand": "0", "trot": "0.4"}


def planned(*words):
    command = [sys.executable, "-m", "sim_harness", "plan", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@PATTERNS
def test_the_command_plans_for_a_server_over_a_socket(pattern, served, tmp_path):
    endpoint, end = served
    refused = planned(endpoint, "--pattern", "walk")  # with the duty factor of a trot
    assert refused.returncode == 2
    assert "gait.duty" in refused.stderr
    words = "--pattern", pattern, "--velocity", SPEED[pattern], "0", "0", "--seconds", "5"
    done = planned(endpoint, *words, "--json", str(tmp_path / "found.json"))
    run = end()
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "found.json").read_text())["plans"] > 100
    assert run.summary.upright
    assert run.summary.distance > 1.0 if pattern == "trot" else run.summary.distance < 0.1
    assert any("expired" in line for line in run.said)  # the planner has ended, the robot stands
    assert any("task" in line for line in run.said)


@PATTERNS
def test_a_robot_stands_while_there_is_no_plan_and_then_goes_on(pattern, served, monkeypatch):
    """The solver of this process, which stands for the planner's, finds nothing for twenty plans."""
    endpoint, end = served
    count, solve = itertools.count(), rigid_body.solve_qp

    def solved(*program):
        found = solve(*program)
        return msgspec.structs.replace(found, status=Status.BACKEND_FAILED) if 100 <= next(count) < 120 else found

    monkeypatch.setattr(rigid_body, "solve_qp", solved)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    words = "--pattern", pattern, "--velocity", SPEED[pattern], "0", "0", "--seconds", "6"
    options = build_parser().parse_args(["plan", endpoint, *words])
    figures, good = run_plan(options)
    run = end()
    assert figures["problems"] == {"the quadratic program was not solved": 20}
    assert not good
    assert figures["plans"] > 120
    assert run.summary.upright
    assert run.summary.distance > 1.0 if pattern == "trot" else run.summary.distance < 0.1
    assert any("expired" in line for line in run.said)
