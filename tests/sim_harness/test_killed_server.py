"""kill -9 of the server in mid-run: the robot damps in time, and the log is recovered and replayed."""

import os
import signal
import threading
import time

import msgspec
import numpy as np

from controllers.config import load
from controllers.robots import load_robot
from idyn.terrain import Flat
from sim_harness.engine_world import EngineWorld
from sim_harness.engines.registry import build_engine
from sim_harness.hardware import Hardware
from sim_harness.imperfections.settings import ImperfectionSettings
from sim_harness.robot_side import RobotSide
from sim_harness.server_process import ServerProcess
from transport.client import RobotClient
from transport.conversation import hello_for
from transport.replay import replay
from transport.settings import ServerSettings

DT = 1e-3
RUN_S, KILL_S = 1.0, 0.5


ATTEMPTS = 3
"""A busy machine may stall for the 100 ms after which a robot stops of its own: then the kill finds nobody to answer."""


def killed_run(folder):
    """The trace and the log of a run whose server was killed while it answered."""
    for attempt in range(ATTEMPTS):
        log = folder / f"{attempt}.mcap"
        address = f"ipc://{folder}/server{attempt}"
        settings = msgspec.structs.replace(load("server", "quadruped", ServerSettings), endpoint=address)
        robot, stance = load_robot("quadruped")
        world = EngineWorld(robot, Flat(), build_engine("lcp"), stance)
        world.step(np.zeros(robot.na), DT)
        world.reset(stance)
        with (
            ServerProcess(settings, log_path=log) as server,
            RobotClient(server.endpoint, hello_for(robot, DT, kind="sim")) as client,
        ):
            client.hello()
            hardware = Hardware.build(world.robot, DT, ImperfectionSettings(), "geometry", None)
            side = RobotSide(world, client, dt=DT, kd=0.2, hardware=hardware)
            killer = threading.Thread(target=kill_at, args=(server, time.monotonic() + KILL_S))
            killer.start()
            trace = side.run_paced(RUN_S)
            killer.join()
        if trace.t[np.isfinite(trace.round_trip)][-1] > 0.1:
            return trace, log
    raise AssertionError(f"the machine stalled in each of {ATTEMPTS} runs")


def test_robot_damps_within_20_ms_and_the_log_survives(tmp_path):
    trace, log = killed_run(tmp_path)
    answered = np.flatnonzero(np.isfinite(trace.round_trip))
    last = answered[-1]
    assert 0.1 < trace.t[last] < RUN_S - 0.1
    damped = [
        k
        for k, mode in enumerate(trace.mode)
        if k > last and trace.modes[mode].startswith(("failsafe:damping", "failsafe:stopped"))
    ]
    assert trace.t[damped[0]] - trace.t[last] <= 0.020 + 1e-9
    assert damped == list(range(damped[0], len(trace)))
    np.testing.assert_allclose(trace.tau[damped[-1]], np.clip(-0.2 * trace.v[damped[-1], 6:], -7.3, 7.3), atol=1e-12)

    report = replay(log)
    assert not report.complete
    assert report.exact
    assert report.ticks >= 0.5 * len(answered)


def kill_at(server: ServerProcess, when: float) -> None:
    time.sleep(max(0.0, when - time.monotonic()))
    pid = server.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
