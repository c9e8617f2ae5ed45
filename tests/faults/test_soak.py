"""Hours of trotting at 1 kHz against a server in its own process, to find what grows, leaks or slows down."""

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

from controllers.robot.load import load_robot
from sim_harness.run.plan import simulated_robot
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.pauses import walking
from transport.log.reader import LogReader
from transport.robot.client import RobotClient, hello_for

SLICE_S, WARM = 30.0, 0.2  # how often one looks [s], and the share of the time that the server has to reach its size


@pytest.mark.soak
@pytest.mark.timeout(24 * 3600)
def test_memory_files_and_tick_times_do_not_grow(tmp_path, pytestconfig):
    """Run with `-m soak -s --soak-minutes 240`: it prints a line for each slice."""
    minutes = pytestconfig.getoption("soak_minutes")
    plan = walking("demo")
    robot, _ = load_robot(plan.controller.robot)
    log = tmp_path / "log.mcap"
    rows, ticks = [], 0
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law="coulomb", endpoint=f"ipc://{sockets}/s", log_part_mb=200.0)
        with (
            ServerProcess(settings, plan.controller, log) as server,
            RobotClient(server.endpoint, hello_for(robot, plan.controller.period, kind="sim"), deadline_ms=2000) as client,
        ):
            client.hello()
            side = simulated_robot(plan, client)
            for _ in range(round(minutes * 60 / SLICE_S)):
                trace = side.run_paced(SLICE_S, waits=True)
                ticks += len(trace)
                assert not side.stopped
                assert trace.share("ok") > 0.99
                memory, descriptors = _size(server.process.pid or 0)
                rows.append((memory, descriptors, float(np.nanmedian(trace.round_trip)) * 1e6))
                print(f"{ticks / 6e4:6.1f} min  {memory:7.1f} MB  {descriptors} files  {rows[-1][2]:6.0f} µs", flush=True)
    table = np.array(rows)[round(WARM * len(rows)) :]
    assert table[:, 0].max() < 1.02 * table[0, 0]
    assert table[:, 1].max() <= table[0, 1]
    third = len(table) // 3
    assert np.median(table[-third:, 2]) < 1.25 * np.median(table[:third, 2])
    with LogReader(log) as reader:
        assert sum(entry.answered for entry in reader.exchanges()) == ticks
        assert reader.complete


def _size(pid: int) -> tuple[float, int]:
    """Resident memory [MB] and open files of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))
