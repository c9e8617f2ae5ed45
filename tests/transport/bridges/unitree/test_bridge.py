"""The bridge with a robot made of two topics, which does what its commands say."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from fast import every_row, full
from mcap.reader import make_reader
from sdk import FOLDER, with_unitree
from wire import running

from idyn import ConfigError, RobotClient, hello_for
from transport.bridges.unitree.bridge import Bridge, ServedRobot
from transport.bridges.unitree.dds import Bus, MotionSwitcher
from transport.bridges.unitree.low_level import LowLevel, damping
from transport.bridges.unitree.low_state import StateDecoder
from transport.bridges.unitree.messages import COMMAND, REMOTE, STATE, Message, RawLog
from transport.bridges.unitree.robot import unitree_robot
from transport.bridges.unitree.script import Step, parse_script

GO2 = unitree_robot("go2-unitree")
MOTORS = len(GO2.motors)
L2, B, A = 1 << 5, 1 << 9, 1 << 8
STAND = Step("stand", 0.3)


@cache
def bus():
    """One for each worker: robots of the same domain would share their topics."""
    return Bus(100 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))


class Puppet:
    """Publishes states at 500 Hz; joints follow the last target at once. commands: all received; trembles: its gyro is noisy;
    sways: amplitude of its joints [rad]"""

    def __init__(self):
        self.states, self.commands = bus().writer(STATE, GO2.family.state), []
        self._heard = bus().reader(COMMAND, GO2.family.command)
        self.message, self.trembles, self.sways = Message(GO2.family.state), True, 0.0
        self.message["imu_state.quaternion"] = np.array([1.0, 0.0, 0.0, 0.0])
        self.message["imu_state.accelerometer"] = np.array([0.0, 0.0, 9.81])

    def run(self, end):
        rng = np.random.default_rng(0)
        while not end.wait(0.002):
            self.message["tick"] = self.message["tick"] + 2
            if self.trembles:
                self.message["imu_state.gyroscope"] = 1e-3 * rng.normal(size=3)
            self.states.write(self.message.sealed())
            for command in self._heard.take():
                self.commands.append(command)
                if command["motor_cmd.kp"].any():
                    sway = self.sways * np.sin(0.02 * float(self.message["tick"][0]))
                    self.message["motor_state.q"] = command["motor_cmd.q"] + sway


@pytest.fixture
def puppet(monkeypatch):
    monkeypatch.setattr("transport.bridges.unitree.low_level.DISCOVERY_S", 0.1)  # all are in this process
    monkeypatch.setattr("transport.bridges.unitree.script.LEAST_S", 0.4)
    monkeypatch.setattr("transport.robot.client.PROBE_MS", 5)
    made = Puppet()
    with running(made.run):
        yield made


POSTURES = {"stand": np.full(MOTORS, 0.5), "lie": np.zeros(MOTORS)}


def bridge(notes, log=None):
    return Bridge(LowLevel(StateDecoder(GO2._replace(postures=POSTURES)), bus(), log), notes.append)


class Link:
    """The two topics without waiting: the next states come `at_once`, 2 ms apart; joints follow the last target at once."""

    is_alone = True

    def __init__(self, at_once=1):
        self.decoder, self.message = StateDecoder(GO2._replace(postures=POSTURES)), Message(GO2.family.state)
        self.message["imu_state.quaternion"] = np.array([1.0, 0.0, 0.0, 0.0])
        self.message["imu_state.accelerometer"] = np.array([0.0, 0.0, 9.81])
        self.at_once, self.ms = at_once, 0

    def states(self, timeout):
        found = []
        for _ in range(self.at_once):
            self.ms += 2
            self.message["tick"], self.message["imu_state.gyroscope"] = self.ms, np.full(3, 1e-6 * self.ms)
            found.append(self.message.copy())
        return self.decoder.states(found)

    def state(self, timeout):
        return self.states(timeout)[-1]

    def send(self, command, state):
        if command.kp.any():
            self.message["motor_state.q"] = np.append(command.q[np.argsort(self.decoder.motors)], np.zeros(20 - MOTORS))


class Taker:
    """A server that gets the robot. begun: when [ms]"""

    problem, latched, modes = "", False, {}

    def __init__(self, link):
        self._link, self.begun = link, []

    def begin(self):
        self.begun.append(self._link.ms)

    def command(self, states):
        return damping(states[-1], GO2.kd)

    def drive(self, velocity): ...
    def pause(self): ...
    def end(self): ...


def test_each_time_that_it_stands_up_a_robot_must_rest_anew_before_a_server_gets_it():
    link, noted = Link(), []
    taker = Taker(link)
    report = Bridge(link, lambda note: noted.append((note, link.ms)), taker).run([STAND, Step("lie"), STAND])
    assert report.ended == ""
    rose = [ms for note, ms in noted if note.startswith("stand")]
    first, second = (taken - since for taken, since in zip(taker.begun, rose, strict=True))
    assert second == pytest.approx(first, abs=4)


def test_missed_states_are_those_that_came_with_a_later_one_that_was_answered():
    """No state is answered before the robot rests, nor is the damping at the end an answer."""
    report = Bridge(Link(), lambda note: None).run([STAND])
    assert (report.ended, report.missed) == ("", 0)
    twice = Bridge(Link(at_once=2), lambda note: None).run([STAND])
    assert twice.missed == twice.answered > 100


@full
def test_a_script_is_done_and_ends_in_damping(puppet):
    notes: list[str] = []
    report = bridge(notes).run([Step("stand", 0.3), Step("lie")])
    assert report.ended == ""
    assert [note.split(":")[0] for note in notes] == ["lie", "stand", "lie"]
    targets = np.array([command["motor_cmd.q"][:MOTORS] for command in puppet.commands])
    assert abs(targets.max() - 0.5) < 1e-3
    gains = [float(command["motor_cmd.kp"][0]) for command in puppet.commands]
    assert gains[0] < 5.0  # they rise from 0
    assert max(gains) == pytest.approx(GO2.kp[GO2.model.joint_names.index(GO2.motors[0])], rel=1e-6)
    last = puppet.commands[-1]
    assert not last["motor_cmd.kp"].any()
    assert (last["motor_cmd.kd"][:MOTORS] > 0.0).all()
    assert all(command.is_sound for command in puppet.commands[::50])


@full
def test_some_steps_need_a_server_and_the_user_ends_a_script(puppet):
    for step in (Step("velocity", 1.0, (0.1, 0.0, 0.0)), Step("remote", 1.0)):
        assert bridge([]).run([step]).ended == f"the step '{step.word}' needs a server (--connect)"
    report = bridge([]).run([Step("stand", 60.0)], stopped=lambda: len(puppet.commands) > 100)
    assert report.ended == "stopped by the user"
    assert report.answered < 500


def test_a_robot_that_falls_does_not_stand_up(puppet, monkeypatch):
    monkeypatch.setattr("transport.bridges.unitree.bridge.SETTLE_S", 1.0)
    puppet.message["imu_state.accelerometer"] = np.zeros(3)
    report = bridge([]).run([Step("stand", 1.0)])
    assert report.ended == "the robot does not come to rest within 1 s"
    assert not any(command["motor_cmd.kp"].any() for command in puppet.commands)


@full
def test_a_server_gets_a_robot_only_when_its_joints_rest(puppet, tmp_path, monkeypatch):
    """The simulator's robot sways for a while after it has stood up."""
    monkeypatch.setattr("transport.bridges.unitree.bridge.SETTLE_S", 1.0)
    monkeypatch.setattr(puppet, "sways", 0.01)
    client = RobotClient(f"ipc://{tmp_path}/nobody", hello_for(GO2.model, 0.002), connect_ms=100)
    link, served = LowLevel(StateDecoder(GO2), bus()), ServedRobot(GO2, client)
    assert (
        Bridge(link, lambda note: None, served).run([Step("stand", 1.0)]).ended == "the robot does not come to rest within 1 s"
    )


def test_a_server_that_is_gone_ends_in_damping(puppet, tmp_path):
    """The robot stands when it is to be handed over."""
    client = RobotClient(f"ipc://{tmp_path}/nobody", hello_for(GO2.model, 0.002), connect_ms=100)
    link, served = LowLevel(StateDecoder(GO2), bus()), ServedRobot(GO2, client)
    report = Bridge(link, lambda note: None, served).run([Step("stand", 5.0)])
    assert report.ended.startswith("no server at ipc://")
    assert not report.modes
    last = puppet.commands[-1]
    assert not last["motor_cmd.kp"].any()
    assert (last["motor_cmd.kd"][:MOTORS] > 0.0).all()


def test_sticks_are_wishes_forward_left_and_turn():
    message, decoder = Message(GO2.family.state), StateDecoder(GO2)
    for at, value, wish in ((20, 0.5, (0.5, 0, 0)), (4, 1.0, (0, -1, 0)), (8, -2.0, (0, 0, 1)), (20, np.nan, (0, 0, 0))):
        remote = bytearray(40)  # of ly, lx, rx
        remote[at : at + 4] = np.float32(value).tobytes()
        message["tick"], message["wireless_remote"] = message["tick"] + 2, np.frombuffer(bytes(remote), np.uint8)
        (state,) = decoder.states([message.copy()])
        np.testing.assert_allclose(state.sticks, wish)
        assert not state.stop


@pytest.mark.parametrize(
    ("topic", "buttons", "stops"),
    [(True, L2 | B, True), *(pytest.param(*row, marks=pytest.mark.full) for row in (
        (True, B, False), (False, L2 | B, True), (False, L2, False), (False, B | A, False)))],
)  # fmt: skip
def test_the_remote_control_stops_the_robot(puppet, topic, buttons, stops):
    """By its topic or in the states."""
    writer, made, told = bus().writer("rt/wirelesscontroller", REMOTE), Message(REMOTE), bridge([])
    if topic:
        made["keys"], made["ly"] = buttons, 0.75
        writer.write(bytes(made.data))
    else:
        puppet.message["wireless_remote"] = [0, 0, buttons & 0xFF, buttons >> 8, *[0] * 36]
    assert told.run([Step("lie")]).ended == ("stopped by the remote control (L2 and B)" if stops else "")
    assert not puppet.commands[-1]["motor_cmd.kp"].any()


@full
def test_sticks_of_the_topic_hold_for_half_a_second(puppet):
    remote, made = bus().writer("rt/wirelesscontroller", REMOTE), Message(REMOTE)
    link = LowLevel(StateDecoder(GO2), bus())
    made["ly"], made["rx"] = 0.75, -0.5
    remote.write(bytes(made.data))
    time.sleep(0.05)
    np.testing.assert_allclose(link.state(1.0).sticks, (0.75, 0.0, 0.5))
    time.sleep(0.5)
    np.testing.assert_array_equal(link.state(1.0).sticks, (0.0, 0.0, 0.0))


def test_an_imu_that_repeats_itself_while_the_joints_move_ends_the_bridge(puppet):
    puppet.trembles, puppet.message["motor_state.q"] = False, np.full(20, 0.3)  # so that it moves when it lies first
    report = bridge([]).run([Step("stand", 2.0)])
    assert "the IMU repeats itself" in report.ended
    assert report.answered < 200
    assert not puppet.commands[-1]["motor_cmd.kp"].any()


@full
@pytest.mark.parametrize("ended", ["the motor of FL_hip_joint has lost 500 commands", "another process sends commands, too"])
def test_a_motor_that_loses_commands_or_another_process_that_sends_some_ends_the_bridge(puppet, ended):
    made, lost = [], 500.0 * (np.arange(20) == 3)
    change = (
        puppet.message.__setitem__ if "motor" in ended else lambda *_: made.append(bus().writer(COMMAND, GO2.family.command))
    )
    threading.Timer(1.0, change, ("motor_state.lost", lost)).start()
    assert bridge([]).run([Step("stand", 5.0)]).ended == ended
    assert not puppet.commands[-1]["motor_cmd.kp"].any()


def test_the_raw_log_has_all_messages_with_their_definitions_and_gives_the_same_states(puppet, tmp_path):
    """The definition names each field of the message, in order, with its type and number."""
    log = RawLog(tmp_path / "raw.mcap", GO2.family)
    report = bridge([], log).run([Step("stand", 0.3), Step("lie")])
    log.close()
    with (tmp_path / "raw.mcap").open("rb") as file:
        found = list(make_reader(file).iter_messages(log_time_order=False))
    told = [(schema, message) for schema, channel, message in found if channel.topic == STATE]
    sent = {message.data for _, channel, message in found if channel.topic == COMMAND}
    assert {bytes(command.data) for command in puppet.commands} <= sent
    states = [Message(GO2.family.state, message.data, message.publish_time) for _, message in told]
    decoded = StateDecoder(GO2).states(states)
    assert len(decoded) >= report.answered > 500
    assert all(np.diff([state.clock_ns for state in decoded]) > 0)
    schema, message = told[0]
    assert (schema.name, schema.encoding, len(message.data)) == ("unitree_go::msg::dds_::LowState_", "omgidl", 1180)
    text = schema.data.decode()
    assert "uint8 head[2]; uint8 level_flag; uint8 frame_reserve; uint32 sn[2];" in text
    assert "unitree_go::msg::dds_::MotorState_ motor_state[20];" in text
    assert text.index("struct MotorState_") < text.index("struct LowState_")
    assert text.count("module unitree_go") == 4


DOMAIN = 60 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])

SERVICE = """
import json, sys, time
from unitree_sdk2py.core.channel import ChannelFactoryInitialize
from unitree_sdk2py.rpc.server import Server

active = [sys.argv[2]]

class Switcher(Server):
    def Init(self):
        self._RegistHandler(1001, lambda text: (0, json.dumps({"form": "0", "name": active[0]})), 0)
        self._RegistHandler(1003, self.release, 0)

    def release(self, text):
        if sys.argv[3] == "refuses":
            return 7004, ""
        active[0] = ""
        return 0, ""

ChannelFactoryInitialize(int(sys.argv[1]), "lo")
switcher = Switcher("motion_switcher")
switcher.Init()
switcher.Start()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def service(active: str, how: str = "") -> Iterator[None]:
    environment = os.environ | {"PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SERVICE, str(DOMAIN), active, how]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line == "ready\n" for line in process.stdout)
        try:
            yield
        finally:
            process.kill()


@with_unitree
def test_the_active_controller_is_released():
    with service("ai"):
        switcher = MotionSwitcher(Bus(DOMAIN))
        assert switcher.active == "ai"
        assert switcher.release() == "ai"
        assert switcher.active == ""
        assert switcher.release() == ""


@with_unitree
def test_a_refused_release_and_a_robot_without_the_service_are_errors():
    with service("ai", "refuses"), pytest.raises(ConfigError, match="refused request 1003 with code 7004"):
        MotionSwitcher(Bus(DOMAIN)).release()
    command = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", "go2-unitree", "--domain", str(DOMAIN)]
    done = subprocess.run([*command, "--yes", "--release"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "motion_switcher was not found" in done.stderr


def test_steps_comments_and_empty_lines():
    text = "# first\nstand 5\n\nvelocity 0.3 -0.1 0 7\n  lie   # rest\nmove left_elbow=1.2 waist=-0.3 4"
    *steps, move = parse_script(text, "x")
    assert steps == [Step("stand", 5.0), Step("velocity", 7.0, (0.3, -0.1, 0.0)), Step("lie")]
    assert (move.word, move.seconds, dict(move.joints)) == ("move", 4.0, {"left_elbow": 1.2, "waist": -0.3})


@every_row(
    ("", "expected at least one step"),
    ("stand 5\nrun 3", "line 2: expected one of stand, velocity, move, remote, lie, got 'run'"),
    ("stand", "line 1: 'stand': expected 1 numbers, got 0"),
    ("lie 3", "line 1: 'lie': expected 0 numbers, got 1"),
    ("stand -1", "line 1: expected seconds > 0, got '-1'"),
    ("stand nan", "line 1: expected a finite number, got 'nan'"),
    ("velocity 1 0 0", "line 1: 'velocity': expected 4 numbers, got 3"),
    ("move 3", "line 1: 'move': expected JOINT=ANGLE, got 3"),
    ("move elbow=1", "line 1: 'move': expected 1 numbers, got 0"),
    ("move elbow=up 3", "line 1: expected a finite number, got 'up'"),
    ("stand elbow=1 3", "line 1: 'stand': expected numbers, got elbow=1 3"),
    ("velocity inf 0 0 3", "line 1: expected a finite number, got 'inf'"),
)
def test_wrong_lines_are_named(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_script(text, "file.txt")
