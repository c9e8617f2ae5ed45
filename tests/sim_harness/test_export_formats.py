"""Logs in formats of other tools, read by their own readers; replays of many logs, clusters and kills (`long`)."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgpack
import msgspec
import numpy as np
import pinocchio as pin
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from cli import fails
from fast import every, every_row, full
from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory

from controllers.build import build_controller
from idyn import ConfigError, StateMessage, hello_for
from idyn.types import Array
from sim_harness.commands.main import main
from sim_harness.export.quantities import QUANTITIES, STATUSES, quantities_of
from sim_harness.export.scene import Shown
from sim_harness.fleet import run as fleet_run
from sim_harness.fleet import ticks as fleet_ticks
from sim_harness.fleet.run import How, run_fleet
from sim_harness.run import logs
from sim_harness.run.experiment import run_in_process
from sim_harness.run.logs import Block, LogBlocks, logged_runs
from sim_harness.run.plan import build_plan, load_plan, with_controller
from transport.log.provenance import attachments, metadata
from transport.log.reader import LogReader
from transport.log.recorder import LogError, Recorder
from transport.log.replay import replay
from transport.protocol.messages.base import Code, ErrorMessage
from transport.server.service import Service
from transport.startup.loopback import Loopback

TICKS = 60
BLOCK = 7  # ticks that an export holds at a time

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
KEYS = ("session", "seq", "t_robot")
NEEDS = {"processes": "multiprocessing", "dask": "distributed", "ray": "ray"}


class Logged(NamedTuple):
    """A log, and what msgpack itself reads in it. times: of arrival, wall clock [ns] (n)"""

    path: Path
    urdf: str
    joints: list[str]
    states: list[dict[str, Any]]
    replies: list[dict[str, Any]]
    times: list[int]

    def vectors(self, what: str) -> Array:
        return np.array([np.frombuffer(each[what]) for each in (self.states if what in ("q", "vel") else self.replies)])


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """Blocks that are much shorter than a log, and no divisor of its length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "TICKS", BLOCK)
        yield


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """A short walk of the quadruped; its states have sensed forces."""
    path = tmp_path_factory.mktemp("export") / "run.mcap"
    settings = load_plan("demo", TICKS * 1e-3).settings
    run_in_process(build_plan(msgspec.structs.replace(settings, contacts="message")), "coulomb", lambda *_: None, log=path)
    with LogReader(path) as reader:
        entries = [(msgpack.unpackb(e.request), msgpack.unpackb(e.reply), e.t_recv_ns) for e in reader.exchanges() if e.reply]
        offset, urdf = reader.wall_offset_ns, reader.attachments["robot.urdf"].decode()
    ticks = [each for each in entries if each[0]["t"] == "state"]
    joints = next(request["actuated"] for request, _, _ in entries if request["t"] == "hello")
    states, replies, times = zip(*ticks, strict=True)
    return Logged(path, urdf, joints, list(states), list(replies), [each + offset for each in times])


@pytest.fixture(scope="module")
def foxglove(logged: Logged) -> dict[str, list[tuple[Any, str, Any, int]]]:
    """Topic → (schema, encoding, decoded message, time) of each message of the exported MCAP."""
    out = logged.path.with_suffix(".foxglove.mcap")
    assert main(["export", str(logged.path)]) == 0
    found: dict[str, list[tuple[Any, str, Any, int]]] = {}
    with out.open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            assert schema is not None
            decode = DecoderFactory().decoder_for(channel.message_encoding, schema) or json.loads
            row = schema, channel.message_encoding, decode(message.data), message.log_time
            found.setdefault(channel.topic, []).append(row)
    return found


def test_foxglove_gets_the_robot_with_its_joints_by_name(logged: Logged, foxglove: dict[str, Any]) -> None:
    ((schema, encoding, message, _),) = foxglove["/robot_description"]
    assert (schema.name, encoding, message["data"]) == ("std_msgs/String", "json", logged.urdf)
    rows = foxglove["/joint_states"]
    assert {(schema.name, schema.encoding) for schema, *_ in rows} == {("foxglove.JointStates", "protobuf")}
    assert [stamp for *_, stamp in rows] == logged.times
    q, tau = logged.vectors("q"), logged.vectors("tau")
    for row, (_, _, message, stamp) in enumerate(rows):
        assert message.timestamp.seconds * 10**9 + message.timestamp.nanos == stamp
        assert [joint.name for joint in message.joints] == logged.joints
        assert [joint.position for joint in message.joints] == q[row, 7:].tolist()
        assert [joint.effort for joint in message.joints] == tau[row].tolist()


def test_transforms_lead_from_the_world_to_each_link(logged: Logged, foxglove: dict[str, Any]) -> None:
    """Composed along the tree, they are Pinocchio's poses of the links of the exported URDF."""
    model = pin.buildModelFromXML(logged.urdf, pin.JointModelFreeFlyer())
    data = model.createData()
    q = dict(zip(logged.times, logged.vectors("q"), strict=True))
    rows = foxglove["/tf"]
    assert len(rows) == 7  # 100 in a second, and the last
    for _, _, message, stamp in (rows[0], rows[-1]):
        pin.framesForwardKinematics(model, data, q[stamp])
        placed = {"world": pin.SE3.Identity()}
        for each in message.transforms:
            t, r = each.translation, each.rotation
            place = pin.XYZQUATToSE3(np.array([t.x, t.y, t.z, r.x, r.y, r.z, r.w]))
            placed[each.child_frame_id] = placed[each.parent_frame_id] * place
        links = [frame.name for frame in model.frames if frame.type == pin.FrameType.BODY and frame.name != "universe"]
        assert sorted(placed) == sorted(["world", *links])
        for link in links:
            there = data.oMf[model.getFrameId(link, pin.FrameType.BODY)]
            np.testing.assert_allclose(placed[link].homogeneous, there.homogeneous, atol=1e-12)


def test_contact_forces_are_arrows_at_the_feet(logged: Logged, foxglove: dict[str, Any]) -> None:
    """Each begins at its foot, points along the force and has a length in proportion to it."""
    time_row = {time: row for row, time in enumerate(logged.times)}
    scales = []
    for _, _, message, stamp in foxglove["/contact_forces"]:
        predicted, sensed = message.entities
        assert (predicted.id, sensed.id, predicted.frame_id) == ("predicted forces", "sensed forces", "world")
        forces = [np.array([f["ft1"], f["ft2"], f["fn"]]) for f in logged.replies[time_row[stamp]]["contact_force"]]
        assert len(predicted.arrows) == len(forces) == 4
        for arrow, force in zip(predicted.arrows, forces, strict=True):
            r = arrow.pose.orientation
            towards = pin.Quaternion(r.w, r.x, r.y, r.z) * np.array([1.0, 0.0, 0.0])
            assert towards[2] == pytest.approx(force[2] / np.linalg.norm(force), abs=1e-9)  # flat ground: n is z
            scales.append(np.linalg.norm(force) / (arrow.shaft_length + arrow.head_length))
            assert abs(arrow.pose.position.z) < 0.02
    assert np.ptp(scales) < 1e-6 * np.mean(scales)
    assert len(foxglove["/contact_forces"][3][2].entities[1].arrows) == 4  # sensed


def test_all_numbers_are_flat_fields_with_names(logged: Logged, foxglove: dict[str, Any]) -> None:
    """JSON that fits its schema, with no other values than numbers."""
    numeric = {topic for topic, rows in foxglove.items() if rows[0][1] == "json"} - {"/robot_description"}
    (run,) = logged_runs(logged.path)
    assert numeric == {each.topic for each in quantities_of(run.controller.robot)}
    for topic in sorted(numeric):
        schema, _, first, _ = foxglove[topic][0]
        described = json.loads(schema.data)
        jsonschema.Draft202012Validator(described).validate(first)
        assert first.keys() <= described["properties"].keys()
        values = [value for _, _, m, _ in foxglove[topic] for value in m.values()]
        assert all(isinstance(value, int | float) and abs(value) < 2**53 for value in values)
    tau = logged.vectors("tau_fb")
    for (_, _, message, _), expected in zip(foxglove["/torque_fb"], tau, strict=True):
        assert message == dict(zip(logged.joints, expected.tolist(), strict=True))
    forces = foxglove["/force_predicted"][-1][2]
    for each in logged.replies[-1]["contact_force"]:
        assert (forces[f"{each['frame']}_n"], forces[f"{each['frame']}_t1"]) == (each["fn"], each["ft1"])
    *_, (_, _, sums, _) = foxglove["/normal_force"]
    assert sums["predicted"] == pytest.approx(sum(each["fn"] for each in logged.replies[-1]["contact_force"]))


def test_changes_of_the_status_are_log_messages(logged: Logged, foxglove: dict[str, Any]) -> None:
    texts = [(message.level, message.message) for _, _, message, _ in foxglove["/log"]]
    statuses = [reply["status"] for reply in logged.replies]
    assert texts[0][1].startswith(statuses[0])
    assert texts[-1][1].startswith("end of the run: ")
    said = [(reply["status"], reply["message"]) for reply in logged.replies]
    assert len(texts) == 2 + sum(a != b for a, b in pairwise(said))


def test_refused_states_are_errors_and_have_no_torque(logged: Logged) -> None:
    """The reply to one state is replaced by a refusal, before the export reads it."""
    with LogBlocks(logged.path) as log:
        block = next(log.blocks())
    exchanges = list(block.exchanges)
    exchanges[5] = exchanges[5]._replace(reply=ErrorMessage(code=Code.STALE_STATE, message="too old", recoverable=True))
    trace = msgspec.structs.replace(block.trace, modes=(*block.trace.modes, "refused"), mode=block.trace.mode.copy())
    trace.mode[5] = len(trace.modes) - 1
    refused: Block = msgspec.structs.replace(block, exchanges=exchanges, trace=trace)
    event = next(each for each in Shown().events(refused) if each.t_ns == logged.times[5])
    assert (event.level, event.text) == ("error", "refused: stale_state: too old")
    values = {each.topic: each.values(refused)[5] for each in QUANTITIES}
    assert np.isnan(values["/torque_ff"]).all()
    assert np.isnan(values["/solver"]).all()
    assert values["/status"] == STATUSES.index("refused")


def test_parquet_has_a_row_per_tick_with_units(logged: Logged) -> None:
    out = logged.path.with_suffix(".parquet")
    assert main(["export", str(logged.path), "--parquet"]) == 0
    table = pq.read_table(out)
    assert table["time"].cast("int64").to_pylist() == logged.times
    assert set(table["session"].to_pylist()) == {1}
    assert table["status"].to_pylist() == [reply["status"] for reply in logged.replies]
    tau, speed = logged.vectors("tau"), logged.vectors("vel")
    for k, joint in enumerate(logged.joints):
        assert table[f"torque.{joint}"].to_pylist() == tau[:, k].tolist()
        assert table[f"velocity.{joint}"].to_pylist() == speed[:, 6 + k].tolist()
    assert table.schema.field(f"torque.{logged.joints[0]}").metadata[b"unit"].decode() == "N·m"
    assert table.schema.metadata[b"urdf"].decode() == logged.urdf
    assert table["mismatch.force"].null_count > 0  # before the first comparison
    for foot in FEET:  # the forces of a tick come with the next state; flat ground: n is z
        sent = [{each["frame"]: each for each in state["contacts"]} for state in logged.states]
        during = [after[foot]["f_sensed"] if foot in now and foot in after else None for now, after in pairwise(sent)]
        expected = [None if each is None else np.frombuffer(each)[2] for each in during]
        assert table[f"force_sensed.{foot}_n"].to_pylist() == pytest.approx([*expected, None], abs=1e-12)


@full
def test_sessions_are_numbered_in_order(logged: Logged, tmp_path: Path) -> None:
    """The first begins with a state that cannot be read; a later one in the second counts as equal to the one before."""
    log, counts = tmp_path / "two.mcap", (10, 16)
    plan = build_plan(load_plan("demo").settings)
    controller = build_controller(plan.controller)
    recorder = Recorder(log, attachments(controller.snapshot(), plan.server), metadata(controller.robot, None))
    service, q = Service(controller, plan.server, recorder=recorder), np.frombuffer(logged.states[0]["q"])
    clock = count(1_000_000, 1_000_000)  # ns
    for session, ticks in enumerate(counts):
        with Loopback(service, hello_for(controller.robot, 1e-3, kind="sim"), clock=lambda: next(clock)) as client:
            client.hello()
            for tick in range(ticks):
                bad = tick == (0, 9)[session]
                position = [0.0] if bad else (q + 1e-6 * tick).tolist()
                state = StateMessage(t_robot=tick * 1_000_000, q=position, vel=np.zeros(controller.robot.nv).tobytes())
                assert (client.exchange(state) is None) == bad
    recorder.close()
    assert main(["export", str(log), "--parquet"]) == 0
    table = pq.read_table(log.with_suffix(".parquet"))
    assert table["session"].to_pylist() == [1] * (counts[0] - 1) + [2] * counts[1]
    assert [k for k, status in enumerate(table["status"].to_pylist()) if status == "refused"] == [counts[0] - 1 + 9]
    expected = q[0] + 1e-6 * np.array([*range(1, 10), *range(9), 8, *range(10, 16)])
    np.testing.assert_allclose(table["base_position.x"].to_pylist(), expected, rtol=0, atol=1e-12)
    first, second = logged_runs(log)
    assert (len(first.trace), len(second.trace)) == (9, 16)
    assert (first.label, second.label) == (str(log), f"{log} #2")
    assert second.trace.t[-1] == pytest.approx(0.015, abs=1e-9)
    assert second.trace.refusal(9).startswith("wrong_length")


@full
def test_rerun_reads_numbers_poses_and_arrows(logged: Logged) -> None:
    from rerun.chunk import RrdReader  # noqa: PLC0415  (a second of imports, in one worker only)

    out = logged.path.with_suffix(".rrd")
    assert main(["export", str(logged.path), "--rerun"]) == 0
    chunks: dict[str, list[Any]] = {}
    for chunk in RrdReader(out).stream():
        chunks.setdefault(chunk.entity_path, []).append(chunk)
    batch = moving(chunks[f"/torque/{logged.joints[0]}"])
    assert batch["time"].cast("int64").to_pylist() == logged.times
    values = [value for (value,) in batch["Scalars:scalars"].to_pylist()]
    assert values == logged.vectors("tau")[:, 0].tolist()
    base = moving(chunks["/tf/BODY0"])
    first = np.array(base["Transform3D:translation"].to_pylist()[0][0])
    np.testing.assert_allclose(first, logged.vectors("q")[0, :3], atol=1e-6)  # rerun stores 32 bits
    assert base["Transform3D:parent_frame"].to_pylist()[0] == ["world"]
    assert len(moving(chunks["/contact_forces/predicted"])["Arrows3D:vectors"].to_pylist()[0]) == 4
    assert any("visual_geometries" in path for path in chunks)
    assert moving(chunks["/log"])["TextLog:text"].to_pylist()[-1][0].startswith("end of the run")


def moving(chunks: list[Any]) -> Any:
    """The part of an entity with times, as one table."""
    return pa.Table.from_batches([chunk.to_record_batch() for chunk in chunks if not chunk.is_static])


@every_row(("foxglove", "foxglove", ".mcap"), ("rerun", "rerun", ".rrd"), ("parquet", "pyarrow", ".parquet"))
def test_a_missing_package_is_named_with_what_installs_it(option, module, suffix, logged, tmp_path, monkeypatch, capsys):
    """Nothing is left in the folder."""
    monkeypatch.setitem(sys.modules, module, None)
    said = fails(capsys, "export", str(logged.path), f"--{option}", "--out", str(tmp_path / f"run{suffix}"))
    assert said.startswith("idyn: export: ")
    assert "pip install" in said
    assert said.endswith(f"[{option}]'\n")
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_of_files_are_refused(logged: Logged, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(logged.path), "--rerun", "--out", str(tmp_path / "x.mcap")]) == 2
    assert "expected a file that ends with .rrd" in capsys.readouterr().err
    (tmp_path / "there.parquet").touch()
    assert "file exists" in fails(capsys, "export", str(logged.path), "--parquet", "--out", str(tmp_path / "there.parquet"))


@full
@pytest.mark.parametrize("experiment", ["grasp", "stand-g1", "squat-fivebar"])
def test_arms_and_humanoids_are_exported(experiment: str, tmp_path: Path) -> None:
    """A fixed base has no pose of its own."""
    log = tmp_path / "run.mcap"
    plan = load_plan(experiment, 0.02)
    run_in_process(plan, "run", lambda *_: None, log=log)
    (run,) = logged_runs(log)
    robot = run.controller.robot
    assert robot.floating == any(each.topic == "/base_position" for each in quantities_of(robot))
    for option in ("--foxglove", "--rerun", "--parquet"):
        assert main(["export", str(log), option]) == 0


def recorded(name: str, path: Path, ticks: int = TICKS, **changes) -> Path:
    plan = with_controller(load_plan(name, ticks * 1e-3), changes)
    run_in_process(plan, "coulomb", lambda *_: None, log=path)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
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
    return run_fleet(logs, How(**how), out, executor, lambda *_: None)


def rows(out, law="recorded"):
    """All results of a law, in order, read as any reader of partitioned Parquet does."""
    table = ds.dataset(out, format="parquet", partitioning="hive").to_table()
    table = table.sort_by([("log", "ascending"), ("seq", "ascending")]).to_pylist()
    return [row for row in table if row["law"] == law]


@full
@pytest.mark.usefixtures("here")
def test_a_replay_as_recorded_has_the_torques_of_the_log(log, tmp_path):
    report = run([log], tmp_path / "out")
    keys, tau = torques(log)
    found = rows(tmp_path / "out")
    assert [tuple(row[key] for key in KEYS) for row in found] == keys
    assert np.array([row["tau"] for row in found]).tobytes() == tau
    assert all(row["identical"] and row["status"] == 0 and row["change_max"] == 0.0 for row in found)
    assert report.exact("recorded")
    weight = np.mean([row["normal_force"] for row in found])
    assert weight == pytest.approx(np.mean([row["normal_force_recorded"] for row in found]), abs=0.0)
    assert weight == pytest.approx(4.8 * 9.81, rel=1e-3)  # of the robot [N]
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["sha256"] == report.sha256
    assert sum(result["ticks"] for result in manifest["results"]) == manifest["logs"][0]["ticks"] == TICKS


@full
@pytest.mark.usefixtures("here")
def test_another_law_has_the_differences_of_a_replay_whatever_is_in_memory(walk, tmp_path, monkeypatch):
    """Row groups of 25 ticks have the values of one group."""
    known, found = replay(walk, law="sap").differences, {}
    for group in (1000, 25):
        monkeypatch.setattr(fleet_ticks, "GROUP", group)
        report = run([walk], tmp_path / str(group), laws=("sap",))
        found[group] = rows(tmp_path / str(group), "sap")
        change = np.array([row["tau"] for row in found[group]]) - np.frombuffer(torques(walk)[1]).reshape(TICKS, -1)
        assert np.abs(change).mean() == pytest.approx(known.tau_mean, rel=1e-12)
        assert np.abs(change).max() == known.tau_max > 0.0
        line = dict(zip(*report.table, strict=True))
        assert float(line["mean |Δτ| [N·m]"]) == pytest.approx(known.tau_mean, rel=1e-3)
    assert found[25] == found[1000]
    (file,) = files(tmp_path / "25")
    assert [pq.ParquetFile(file).metadata.row_group(i).num_rows for i in range(3)] == [25, 25, 10]


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
def test_a_run_continues_with_what_is_missing_or_damaged(log, walk, tmp_path, monkeypatch):
    """The first run ends in the second log; then a file is cut, as by a full disk."""
    out, known, replays = tmp_path / "out", run([log, walk], tmp_path / "other").sha256, fleet_run.replayed

    def interrupted(reader, **how):
        if reader.path == walk:
            raise KeyboardInterrupt
        return replays(reader, **how)

    monkeypatch.setattr(fleet_run, "replayed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run([log, walk], out)
    (first,) = files(out)
    written = first.stat().st_mtime_ns
    monkeypatch.setattr(fleet_run, "replayed", replays)
    assert run([log, walk], out).sha256 == known
    assert first.stat().st_mtime_ns == written
    first.write_bytes(first.read_bytes()[:-20])
    assert run([log, walk], out).sha256 == known
    with pytest.raises(ConfigError, match="another selection"):
        run([log], out, selection="torque")


def test_bad_settings_and_folders_are_named(log, tmp_path):
    with pytest.raises(ConfigError, match=r"law.*koulomb"):
        run([log], tmp_path / "out", laws=("koulomb",))
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
    assert "--out" in fails(capsys, "replay", str(log), *words)


@pytest.mark.long
@pytest.mark.parametrize("executor", NEEDS)
def test_a_killed_run_on_a_cluster_of_this_machine_resumes_to_the_same_bits(walk, log, tmp_path, executor):
    """Killed by SIGKILL after some of the logs, with one and with two workers."""
    if importlib.util.find_spec(NEEDS[executor]) is None:
        pytest.skip(f"needs {NEEDS[executor]}")
    known = run([walk, log], tmp_path / "known", laws=("sap", "no-slip")).sha256
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        words = ["replay", walk, log, "--law", "sap", "--law", "no-slip", "--out", out, "--jobs", jobs]
        command = [sys.executable, "-m", "idyn", *map(str, words), "--executor", executor]
        first = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(files(out)) < 1 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
        assert 1 <= len(files(out)) < 4
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.splitlines()[-1] == f"SHA-256 of the results: {known}"
        assert [pq.read_metadata(file).num_rows for file in files(out)] == [TICKS] * 4
