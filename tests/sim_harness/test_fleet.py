"""Replays of many logs: results beside the bytes of the log, windows, resumption, refusals; clusters and kills (`long`)."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgpack
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fast import every, full
from mcap.reader import make_reader

from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.fleet import run as fleet_run
from sim_harness.fleet.run import How, run_fleet
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from transport.log.recorder import LogError
from transport.log.replay import replay

TICKS, WINDOW = 60, 25
KEYS = ("session", "seq", "t_robot")


def recorded(name: str, path: Path, ticks: int = TICKS, **changes) -> Path:
    plan = with_controller(load_plan(name, ticks * 1e-3), changes)
    run_in_process(plan, "coulomb", lambda *_: None, log=path)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Of a robot that is pushed."""
    return recorded("push", tmp_path_factory.mktemp("logs") / "push.mcap")


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Of a robot whose reference begins at once."""
    return recorded("trot-quadruped", tmp_path_factory.mktemp("logs") / "walk.mcap")


def torques(log):
    """What MCAP's and msgpack's own readers find in a log: keys and torques of each tick."""
    with log.open("rb") as file:
        found = [msgpack.unpackb(message.data) for _, _, message in make_reader(file).iter_messages(["/torque"])]
    replies = [reply for reply in found if reply["t"] == "torque"]
    return [tuple(reply[key] for key in KEYS) for reply in replies], b"".join(reply["tau"] for reply in replies)


def files(out):
    return sorted(out.rglob("*.parquet"))


def run(logs, out, executor=("processes", 1), **how):
    return run_fleet(logs, How(**({"window": WINDOW} | how)), out, executor, lambda *_: None)


def rows(out, law="recorded"):
    """All results of a law, in order, read as any reader of partitioned Parquet does."""
    table = ds.dataset(out, format="parquet", partitioning="hive").to_table()
    table = table.sort_by([("log", "ascending"), ("seq", "ascending")]).to_pylist()
    return [row for row in table if row["law"] == law]


@pytest.mark.usefixtures("here")
def test_a_replay_as_recorded_has_the_torques_of_the_log(log, tmp_path):
    report = run([log], tmp_path / "out")
    keys, tau = torques(log)
    found = rows(tmp_path / "out")
    assert [tuple(row[key] for key in KEYS) for row in found] == keys
    assert np.array([row["tau"] for row in found]).tobytes() == tau
    assert all(row["identical"] and row["status"] == 0 and row["change_max"] == 0.0 for row in found)
    assert [row["window"] for row in found] == [0] * 25 + [1] * 25 + [2] * 10
    assert report.exact("recorded")
    weight = np.mean([row["normal_force"] for row in found])
    assert weight == pytest.approx(np.mean([row["normal_force_recorded"] for row in found]), abs=0.0)
    assert weight == pytest.approx(4.8 * 9.81, rel=1e-3)  # of the robot [N]
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["sha256"] == report.sha256
    assert sum(window["ticks"] for window in manifest["windows"]) == manifest["logs"][0]["ticks"] == TICKS


@full
@pytest.mark.usefixtures("here")
def test_windows_of_any_length_are_parts_of_one_replay(walk, tmp_path):
    """Under another law, whose torques differ; the figures are those of `replay`."""
    known = replay(walk, law="sap").differences
    for window in (1000, 25, 7):
        out = tmp_path / str(window)
        report = run([walk], out, laws=("sap",), window=window)
        found = rows(out, "sap")
        change = np.array([row["tau"] for row in found]) - np.frombuffer(torques(walk)[1]).reshape(TICKS, -1)
        assert np.abs(change).mean() == pytest.approx(known.tau_mean, rel=1e-12)
        assert np.abs(change).max() == known.tau_max > 0.0
        if window == 1000:
            whole = found
        assert [row | {"window": 0} for row in found] == [row | {"window": 0} for row in whole]
        line = dict(zip(*report.table, strict=True))
        assert float(line["mean |Δτ| [N·m]"]) == pytest.approx(known.tau_mean, rel=1e-3)


@full
@pytest.mark.usefixtures("here")
def test_another_law_is_not_stopped_because_the_motors_gave_other_torques(tmp_path):
    """The log's motors gave the torques of Coulomb's law: a motor alarm would end the replay after 488 ticks of this walk."""
    report = run([recorded("trot-quadruped", tmp_path / "walk.mcap", 600)], tmp_path / "out", laws=("sap", "recorded"))
    found = rows(tmp_path / "out", "sap")
    assert len(found) == 600
    assert {row["status"] for row in found} <= {0, 1}  # ok, degraded
    assert max(row["change_max"] for row in found) > 1.0  # [N·m]
    assert report.exact("recorded")


@full
@pytest.mark.usefixtures("here")
def test_a_run_continues_with_what_is_missing_or_damaged(log, tmp_path, monkeypatch):
    """The first run ends in the second window; then one file is cut, as by a full disk."""
    out, write = tmp_path / "out", fleet_run.write

    def interrupted(path, ticks, about):
        if "000001" in str(path):
            raise KeyboardInterrupt
        write(path, ticks, about)

    monkeypatch.setattr(fleet_run, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([log], out)
    (first,) = files(out)
    written = first.stat().st_mtime_ns
    monkeypatch.setattr(fleet_run, "write", write)
    resumed = run([log], out)
    assert first.stat().st_mtime_ns == written
    assert resumed.sha256 == run([log], tmp_path / "other").sha256
    last = files(out)[-1]
    last.write_bytes(last.read_bytes()[:-20])
    assert run([log], out).sha256 == resumed.sha256
    with pytest.raises(ConfigError, match="another window"):
        run([log], out, window=10)


@full
@pytest.mark.usefixtures("here")
def test_a_lead_in_replaces_the_past_of_a_robot_that_holds_its_stance(tmp_path):
    """After enough ticks the windows have the recorded torques to rounding."""
    log, off = recorded("push", tmp_path / "hold.mcap", reference={"kind": "hold"}), {}
    known = np.frombuffer(torques(log)[1]).reshape(TICKS, -1)
    for lead_in in (0, 20):
        out = tmp_path / str(lead_in)
        run([log], out, lead_in=lead_in)
        tau = np.array([row["tau"] for row in rows(out)])
        off[lead_in] = np.abs(tau - known)
        assert off[lead_in][:WINDOW].max() == 0.0  # the first window begins with the log
    assert off[20].max() < 1e-9
    assert off[0][WINDOW].max() > 0.0


def test_bad_settings_and_folders_are_named(log, walk, tmp_path):
    with pytest.raises(ConfigError, match=r"--lead-in.*'gait' depends"):
        run([walk], tmp_path / "out", lead_in=5)
    with pytest.raises(ConfigError, match=r"law.*koulomb"):
        run([log], tmp_path / "out", laws=("koulomb",))
    with pytest.raises(ConfigError, match=r"--window: expected .* ≥ 1, got 0"):
        run([log], tmp_path / "out", window=0)
    with pytest.raises(ConfigError, match="one twice"):
        run([log, log], tmp_path / "out")
    with pytest.raises(LogError, match=r"none\.mcap"):
        run([tmp_path / "none.mcap"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="expected a new folder"):
        run([log], tmp_path / "full")


@every("words", [["--jobs", "2"], ["--executor", "dask"], ["--law", "sap", "--law", "cone"]])
def test_a_single_replay_says_what_needs_a_folder(log, words, capsys):
    assert main(["replay", str(log), *words]) == 2
    assert "--out" in capsys.readouterr().err


NEEDS = {"processes": "multiprocessing", "dask": "distributed", "ray": "ray"}


@pytest.mark.long
@pytest.mark.parametrize("executor", NEEDS)
def test_a_killed_run_on_a_cluster_of_this_machine_resumes_to_the_same_bits(walk, log, tmp_path, executor):
    """Killed by SIGKILL after some of the windows, with one and with two workers."""
    if importlib.util.find_spec(NEEDS[executor]) is None:
        pytest.skip(f"needs {NEEDS[executor]}")
    known = run([walk, log], tmp_path / "known", laws=("sap", "no-slip"), window=10).sha256
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        words = ["replay", walk, log, "--law", "sap", "--law", "no-slip", "--window", "10", "--out", out, "--jobs", jobs]
        command = [sys.executable, "-m", "idyn", *map(str, words), "--executor", executor]
        first = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(files(out)) < 3 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert 3 <= len(files(out)) < 24
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == f"SHA-256 of the results: {known}"
        assert [pq.read_metadata(file).num_rows for file in files(out)] == [10] * 24
