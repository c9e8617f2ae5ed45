"""The command line: results, and errors of one line that name their cause; `idyn top`, which disturbs nothing."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import urdf
import zmq
from cli import fails, prints
from disk import written
from fast import every, every_row, full
from wire import expect, routed, running, sending

from idyn import LAWS, InputError, StateMessage, load_controller, load_robot
from sim_harness.commands.clients import Sample, rows
from sim_harness.commands.main import main
from transport.bridges.ros2.bridge import ServerLink
from transport.protocol.messages.requests import Estop, Hello, Stats, StatsGet
from transport.robot.planner import Observer
from transport.server.service import Service
from transport.server.sessions.handshake import Host, agree
from transport.server.settings import ServerSettings, WatchdogSettings
from transport.startup.warm_up import warm_up

URDF = Path(__file__).parents[2] / "configs/robots/quadruped.urdf"
NO_STATS = {"config_get": {"t": "config", "settings": {"law": {}}}, "stats_get": {"t": "config", "settings": {}}}


def test_version_option_prints_the_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("idyn 0.")


def test_check_prints_a_hello_that_the_server_accepts(capsys):
    facts = json.loads(prints(capsys, "check", "go2", "--hello"))
    _, stance = load_robot("go2")
    data = json.dumps(facts["hello"]).encode()
    host = Host(load_controller("go2"), ServerSettings(controller="go2"))
    agreement = agree(msgspec.json.decode(data, type=Hello), host, data, 0)
    assert agreement.id > 0
    assert (facts["q"], facts["contacts"]) == (stance.tolist(), ["FL_foot", "FR_foot", "RL_foot", "RR_foot"])


def test_list_explains_all_settings(capsys, tmp_path):
    """Of every kind of file, including nested tables, tuples and unions, with type, default and meaning."""
    listing = tmp_path / "settings.json"
    printed, rows = prints(capsys, "list", "settings", "--json", str(listing)), json.loads(listing.read_text())
    assert printed.splitlines()[-1] == f"{len(rows)} settings"
    found = {(row["file"], row["path"]): row for row in rows}
    edges = found["controllers", "law(coulomb).edges"]
    assert (edges["default"], edges["type"]) == ("4", "int")
    assert "friction polygon" in edges["meaning"]
    assert found["controllers", "robot"]["default"] == "required"
    assert found["controllers", "drive.kp"]["type"] == "float ≥ 0"
    assert "[N·m/rad]" in found["controllers", "drive.kp"]["meaning"]
    assert (found["controllers", "law"]["default"], found["server", "deadline_us"]["default"]) == ("coulomb", "600.0")
    assert ("experiments", "engine(lcp).edges") in found
    explained = sum(bool(row["meaning"]) for row in rows)
    assert explained > 0.8 * len(rows)


def test_list_names_what_is_shipped(capsys):
    assert set(re.findall(r"^  ([\w-]+)  ", prints(capsys, "list", "laws"), re.MULTILINE)) == set(LAWS)
    printed = prints(capsys, "list")
    assert all(f"\n  {name}  " in printed for name in ("go2", "quadruped-trot", "demo", "sliding-block", "mujoco"))
    assert max(map(len, printed.splitlines())) <= 100
    assert main(["list", "robots", "no such robot"]) == 1


def test_doctor_reports_versions_extras_and_the_machine(capsys, tmp_path):
    report = tmp_path / "facts.json"
    assert main(["doctor", "--ticks", "0", "--json", str(report)]) == 0
    facts = {fact["name"]: fact for fact in json.loads(report.read_text())}
    assert (facts["numpy"]["value"], facts["extra [solvers]"]["value"]) == (np.__version__, "installed")
    assert re.match(r"\d+ µs late", facts["wake-ups at 1 kHz"]["value"])
    assert {"cores", "kernels", "real-time scheduling", "platform"} <= set(facts)
    for name, fact in facts.items():
        if name.startswith("extra") and fact["value"] != "installed":
            assert "pip install" in fact["advice"]
            assert f"[{name.split('[')[1]}" in fact["advice"]
    assert "1 kHz: not tested" in capsys.readouterr().out


@full
def test_doctor_measures_the_round_trips_of_a_server(capsys):
    """On a busy machine 1 kHz is not held: then the exit code says so, and a reason is given."""
    held = main(["doctor", "--ticks", "500"]) == 0
    printed = capsys.readouterr().out
    assert f"1 kHz: {'held' if held else 'not held'}" in printed
    assert held or "what may limit it: " in printed


def test_check_finds_no_fault_in_shipped_robots_and_an_impossible_inertia_in_a_urdf(capsys, tmp_path):
    for name in ("solo12", "a1", "go2", "quadruped"):
        assert main(["check", name, "--json", str(tmp_path / "findings.json")]) == 0
    assert json.loads((tmp_path / "findings.json").read_text()) == []
    assert "4.8 kg" in capsys.readouterr().out
    broken = written(tmp_path / "broken.urdf", URDF.read_text().replace('izz="1.275e-4"', 'izz="1.275e-3"'))
    assert main(["check", str(broken)]) == 1
    printed = capsys.readouterr().out
    assert "warning: quadruped.LF_LEG_2: inertia: principal moments" in printed
    assert "triangle inequality" in printed


@every_row(
    ("serve", 'robot = "quadruped"\nlaw = "colomb"', "law: no kind named 'colomb' (nearest: coulomb, cone)"),
    ("serve", 'robot = "quadruped"\nlow = "coulomb"', "low: no such setting (nearest: law)"),
    ("serve", 'robot = "quadruped"\n[feedback]\nkp = "stiff"', "feedback.kp"),
    ("serve", 'robot = "quadrupet"', "robots.quadrupet: no such configuration (nearest: quadruped, quadruped-lying)"),
    ("serve", 'robot = "quadruped"\nperiod = 0.0', "period: expected a finite number > 0"),
    ("serve", "robot = ", "not valid TOML"),
    ("check", 'urdf = "nowhere.urdf"', "nowhere.urdf"),
    ("check", f'urdf = "{URDF}"\n[[contact]]\nframe = "LF_FOOD"', "LF_FOOT"),
    ("simulate", 'server = "quadruped"\nlaws = ["coulomb"]\nduration = 1.0\nengine = "bullet"', "bullet"),
    ("simulate", 'server = "quadruped"\nlaws = ["newton"]\nduration = 1.0', "newton"),
    ("replay", "no log at all", "mine.toml"),
)
def test_a_wrong_file_is_refused_with_the_path_of_the_setting(command, text, named, capsys, tmp_path):
    """`serve` gets a server with this controller."""
    path, server = tmp_path / "mine.toml", tmp_path / "server.toml"
    path.write_text(text)
    server.write_text(f'controller = "{path}"')
    assert named in fails(capsys, command, str(server if command == "serve" else path))


def test_a_name_or_file_that_does_not_exist_is_named(capsys, tmp_path):
    assert "no such configuration" in fails(capsys, "simulate", "demoo")
    assert "log.mcap" in fails(capsys, "replay", str(tmp_path / "log.mcap"))


def arm(mount):
    """URDF of a plate, on a joint of this kind, with a tool on a hinge."""
    parts = [urdf.link("world"), urdf.link("plate", 3.0, 0.01), urdf.link("tool", 1.0, 0.01, at=(0.2, 0, 0))]
    parts.append(urdf.joint("mount", "world", "plate", axis="1 0 0", kind=mount, limits=(-1, 1, 50, 5)))
    return urdf.robot("arm", *parts, urdf.joint("shoulder", "plate", "tool", axis="0 1 0", limits=(-1, 1, 50, 5)))


@pytest.mark.parametrize("mount", ["fixed", "prismatic"])
def test_a_contact_on_a_plate_is_judged_alike_by_all_commands(capsys, tmp_path, mount):
    """Refused with the same words where the plate is fixed to the world, accepted where it slides."""
    (tmp_path / "arm.urdf").write_text(arm(mount))
    path = tmp_path / "arm.toml"
    path.write_text(
        '[robot]\nurdf = "arm.urdf"\nbase = "fixed"\ncontact = { frame = "plate" }\n'
        '[experiment]\nlaws = ["coulomb"]\nengine = "lcp"\nduration = 0.01\npaced = false\n'
    )
    if mount == "prismatic":
        assert main(["check", str(path)]) == main(["simulate", str(path)]) == 0
        assert load_robot(str(path))[0].contact_names == ("plate",)
        return
    said = {fails(capsys, command, str(path)) for command in ("check", "simulate", "serve")}
    with pytest.raises(InputError) as refused:
        load_robot(str(path))
    assert said == {f"idyn: {refused.value}\n"}
    assert "contact.plate: expected a frame of a moving link, got one that is fixed to the world" in str(refused.value)


def test_simulate_writes_a_summary_for_each_law(capsys, tmp_path):
    figures = tmp_path / "figures.json"
    assert main(["simulate", "push", "--seconds", "0.3", "--json", str(figures)]) == 0
    summaries = json.loads(figures.read_text())
    assert [s["label"] for s in summaries] == ["no-slip", "coulomb", "convex"]
    for summary in summaries:
        assert summary["verdict"]["good"]
        assert summary["force_error_relative"] < 1e-6
        assert summary["modes"] == {"ok": 1.0}


@full
def test_demo_writes_its_report_and_a_log_that_replays_bit_for_bit(capsys, tmp_path):
    experiment = tmp_path / "short.toml"
    experiment.write_text(
        'server = "quadruped"\nlaws = ["coulomb"]\nduration = 0.3\npaced = false\n[controller.reference]\nkind = "sway"\n'
    )
    folder = tmp_path / "demo"
    assert main(["demo", str(experiment), "--out", str(folder)]) == 0
    written = {path.name for path in folder.iterdir()}
    assert {"report.html", "summary.json", "friction.png", "coulomb"} <= written
    assert 'src="http' not in (folder / "report.html").read_text()
    log = folder / "coulomb" / "log.mcap"
    figures = tmp_path / "replay.json"
    assert main(["replay", str(log), "--json", str(figures)]) == 0
    replayed = json.loads(figures.read_text())
    assert replayed["ticks"] == replayed["identical"] == 300
    assert main(["replay", str(log), "--law", "no-slip", "--json", str(figures)]) == 0
    assert json.loads(figures.read_text())["differences"]["tau_max"] > 0


@every("command", [("simulate", "stand", "--seconds", "0.01"), ("check", "quadruped")])
def test_with_json_on_stdout_all_other_text_is_on_stderr(command, capsys):
    assert main([*command, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) is not None
    assert "quadruped" in err or "coulomb" in err


@every_row(
    (["--rate", "0"], "--rate: expected a rate of 0 to 500 per second, got 0"),
    (["--rate", "nan"], "--rate: expected a rate of 0 to 500 per second, got nan"),
    (["--domain", "-1"], "--domain: expected a number ≥ 0, got '-1'"),
    (["--secret", "key"], "--secret: expected --secret and --server-key together"),
    (["--interface", "eth0"], "--yes: expected a terminal to confirm the checklist, or --yes"),
    ([], "no answer from ipc:///nowhere within 50 ms"),
    (["--interface", "eth0", "--read-only"], "no answer from ipc:///nowhere"),
    (["--interface", "eth0", "--yes"], "no answer from ipc:///nowhere"),
)
def test_what_cannot_work_is_refused_before_anything_is_sent(words, problem, capsys, monkeypatch):
    monkeypatch.setattr("transport.robot.client.PROBE_MS", 5)
    monkeypatch.setitem(ServerLink.__init__.__kwdefaults__, "timeout_ms", 50)
    assert problem in fails(capsys, "bridge", "ros2", "ipc:///nowhere", *words)
    monkeypatch.setenv("ROS_DOMAIN_ID", "home")
    assert "ROS_DOMAIN_ID: expected a number ≥ 0, got 'home'" in fails(capsys, "bridge", "ros2", "ipc:///nowhere")


@contextmanager
def robot_and_server(folder: Path) -> Iterator[str]:
    """A standing quadruped that is served at about 200 Hz; gives the server's endpoint."""
    watchdog = WatchdogSettings(silence_ms=1e4)
    settings = ServerSettings(controller="quadruped", max_state_age_ms=1e4, watchdog=watchdog, estops=("button",))
    controller = load_controller("quadruped")
    warm_up(controller, settings)
    q, vel = controller.stance.tobytes(), np.zeros(controller.robot.nv).tobytes()
    with (
        routed(Service(controller, settings), f"ipc://{folder}/s", lead_us=0.0) as (router, _),
        sending(router.endpoint, controller.robot, lambda tick: StateMessage(q=q, vel=vel, t_robot=tick * 5_000_000)),
    ):
        yield router.endpoint


def stats(**changes: object) -> Stats:
    fields = {"received": 0, "torques": 0, "refused": {}, "deadline_misses": 0, "step_us_mean": 0.0, "step_us_max": 0.0}
    return Stats(**(fields | {"comm": None, "fault": None} | changes))  # type: ignore[arg-type]


def test_rates_and_means_are_of_the_time_between_two_samples() -> None:
    before = Sample(10.0, stats(states=1000, torques=1000, step_us_mean=100.0, others_us_mean=10.0))
    now = Sample(12.0, stats(states=2500, torques=2000, step_us_mean=150.0, others_us_mean=10.0, refused={"b": 2, "a": 1}))
    shown = rows(before, now)
    assert (shown["states"], shown["torques"]) == ("750 /s", "500 /s")
    assert shown["step"].startswith("200 µs")
    assert (shown["others"], shown["refused"]) == ("10 µs per torque", "a 1, b 2")
    assert rows(now, now._replace(time=13.0))["step"].startswith("–")


@full
def test_top_shows_a_served_robot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, as lines for a file until it is interrupted, and as a screen of a terminal."""
    with robot_and_server(tmp_path) as endpoint:
        shown = dict(re.findall(r"^  (\w[\w ]*\w)  +(.*)$", prints(capsys, "top", endpoint, "--once"), re.MULTILINE))
        assert 20 < int(shown["states"].split()[0]) <= 220
        assert abs(int(shown["torques"].split()[0]) - int(shown["states"].split()[0])) <= 2
        assert shown["fault"] == "none"
        command = ["env", "--default-signal=INT", sys.executable, "-m", "sim_harness", "top", endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None
            first, second = top.stdout.readline(), top.stdout.readline()
            assert first.startswith("states: ")
            assert second.startswith("states: ")
            top.send_signal(signal.SIGINT)
            assert top.wait(10) == 0
            assert top.stderr is not None
            assert top.stderr.read() == ""
        terminal, own = pty.openpty()
        with Observer(endpoint) as observer, subprocess.Popen(command, stdout=own, env=os.environ | {"TERM": "xterm"}) as top:
            observer.ask(Estop(name="button"))
            seen, until = b"", time.monotonic() + 30
            while b"fault              emergency" not in seen and time.monotonic() < until:
                assert select.select([terminal], [], [], 20.0)[0], seen
                seen += os.read(terminal, 4096)
            assert b"\x1b[H\x1b[J" in seen
            assert b"emergency" in seen
            top.send_signal(signal.SIGINT)
            assert top.wait(10) == 0
            reply = expect(Stats, observer.ask(StatsGet()))
            assert reply.dropped == 0
        os.close(terminal)
        os.close(own)


@contextmanager
def liar(folder: Path, answers: dict[str, dict[str, object]]) -> Iterator[str]:
    """A server that gives these answers to requests of these types; gives its address."""
    address = f"ipc://{folder}/liar"

    def work(stop: threading.Event) -> None:
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.linger = 0
            socket.bind(address)
            while not stop.is_set():
                if socket.poll(20):
                    identity, request = socket.recv_multipart()
                    socket.send_multipart([identity, msgpack.packb({"v": "1.0"} | answers[msgpack.unpackb(request)["t"]])])

    with running(work):
        yield address


ESCAPES = "\x1b]0;title\x07\x1b[2J\n\rroot#\x9b31m\u202e"
ESCAPED = r"\x1b]0;title\x07\x1b[2J\n\rroot#\x9b31m\u202e"
REFUSAL = {"t": "error", "code": "internal", "message": ESCAPES, "recoverable": True}
TOLD = {"t": "stats", **msgspec.to_builtins(stats(refused={ESCAPES: 3}, fault=ESCAPES))}


@full
def test_a_server_cannot_write_to_the_terminal(tmp_path, capsys, monkeypatch) -> None:
    config = {"t": "config", "settings": {"law": ESCAPES}}
    with liar(tmp_path, {"stats_get": TOLD, "config_get": config}) as address:
        assert main(["top", address, "--once"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 11
    assert said.splitlines()[0].endswith(f"law {ESCAPED}")
    assert f"  fault              {ESCAPED}\n" in said
    assert f"  refused            {ESCAPED} 3\n" in said
    monkeypatch.setattr("transport.robot.client.PROBE_MS", 5)
    monkeypatch.setitem(Observer.__init__.__kwdefaults__, "timeout_ms", 100)
    assert "no answer" in fails(capsys, "top", f"{address}-nobody", "--once")


@every_row(
    ({"config_get": {"t": "stop_ack", "session": 1}}, "expected 'config' as the server's answer, got 'stop_ack'"),
    (NO_STATS, "expected 'stats' as the server's answer, got 'config'"),
    ({"config_get": {"t": "tea"}}, "unknown message type 'tea'"),
    ({"config_get": {"t": "config", "settings": 3}}, "settings: expected `object`, got `int`"),
    ({"config_get": REFUSAL}, r"\x1b]0;title\x07\x1b[2J"),
)
def test_an_answer_of_the_wrong_type_is_named_and_cannot_write_to_the_terminal(answers, says, tmp_path, capsys) -> None:
    with liar(tmp_path, answers) as address:
        assert main(["top", address, "--once"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert all(c.isprintable() or c == "\n" for c in said)
