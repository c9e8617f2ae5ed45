"""kill -9 of the server in mid-run: the robot stops in its posture in time, and the log is recovered and replayed."""

import time

import msgspec
import numpy as np
from fast import full

from controllers.config.loading import load
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.robot.hardware import Hardware
from sim_harness.robot.imperfections import ImperfectionSettings
from sim_harness.robot.robot_side import RobotSide
from sim_harness.run.server_process import ServerProcess
from sim_harness.world.worlds import ENGINES, build_world
from transport.log.replay import replay
from transport.robot.client import RobotClient
from transport.robot.conversation import hello_for
from transport.server.settings import ServerSettings

DT = 1e-3
TICKS, KILLED = 1000, 500

ENOUGH_BYTES = 500_000
"""The server is killed when so much of its log is on the disk: about half of what it has answered."""


class Killing(RobotClient):
    """A client that ends the server with SIGKILL before its state number `KILLED`, once the log is well under way."""

    def __init__(self, server, log, hello):
        super().__init__(server.endpoint, hello, deadline_ms=2000)
        self.server, self.log, self.asked = server, log, 0

    def exchange(self, state):
        if self.asked == KILLED:
            while self.log.stat().st_size < ENOUGH_BYTES:
                time.sleep(0.01)
            self.server.process.kill()
            self.server.process.join()
        self.asked += 1
        return super().exchange(state)


@full
def test_the_robot_stops_in_its_posture_and_the_log_survives(tmp_path):
    log = tmp_path / "log.mcap"
    settings = msgspec.structs.replace(load("server", "quadruped", ServerSettings), endpoint=f"ipc://{tmp_path}/server")
    robot, stance = load_robot("quadruped")
    world = build_world(ENGINES["lcp"](), robot, Flat(), stance)
    with ServerProcess(settings, log_path=log) as server, Killing(server, log, hello_for(robot, DT, kind="sim")) as client:
        client.hello()
        hardware = Hardware.build(robot, DT, ImperfectionSettings(), "geometry", None)
        side = RobotSide(world, client, dt=DT, kd=0.2, hardware=hardware)
        trace = side.run_paced(TICKS * DT, waits=True)
    modes = [trace.modes[mode] for mode in trace.mode]
    last = KILLED - 1
    assert set(modes[:KILLED]) == {"ok"}
    assert modes.index("failsafe:follow") == KILLED
    assert modes.index("failsafe:rest") == last + 20
    assert modes.index("failsafe:stopped") == last + 100
    assert modes[last + 100 :] == ["failsafe:stopped"] * (TICKS - last - 100)
    assert np.abs(trace.v[-1]).max() < 0.05
    assert trace.q[-1, 2] > 0.95 * trace.q[0, 2]

    report = replay(log)
    assert not report.complete
    assert report.exact
    assert 100 < report.ticks <= KILLED
