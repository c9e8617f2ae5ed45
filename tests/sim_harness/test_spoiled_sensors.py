"""Spikes and freezes of single sensors of a robot that stands or trots, with a measured and with an estimated base.

    pytest -m long -s tests/sim_harness/test_spoiled_sensors.py

prints the cases that fell.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from fast import every

from controllers.build import build_controller
from controllers.config.loading import load
from sim_harness.measure.fall import Posture
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.robot.imperfections import ImperfectionSettings, ImuSettings, Sensing, Spread
from sim_harness.robot.robot_side import RobotSide
from sim_harness.run.plan import ExperimentSettings, Plan, build_plan, hello_of, simulated_robot, terrain_of
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.server.service import Service
from transport.startup.loopback import Loopback

NOISE = Spread(joint_position=1e-4, joint_speed=0.02, base_orientation=5e-4, base_rate=5e-3, base_velocity=5e-3)
BEGIN, END = 0.45, 1.5
"""Time of the fault, and end of a run [s]."""

FREEZES = (0.005, 0.02, 0.1, 0.4)
"""Lengths of the freezes [s]."""

SPIKES: dict[str, tuple[float, ...]] = {
    "base attitude": (0.02, 0.05, 0.09, 0.2, 1.0, 3.0),  # rad, about the forward axis
    "base rate": (0.5, 2.0, 3.9, 7.0, 30.0, 1e300),  # rad/s
    "base position": (0.01, 0.04, 0.06, 0.5, 5.0, 1e300),  # m
    "base velocity": (0.1, 0.5, 0.9, 2.0, 20.0, 1e300),  # m/s
    "specific force": (10.0, 50.0, 140.0, 200.0, 2e3, 1e300),  # m/s²
    "joint angle": (0.02, 0.05, 0.09, 0.2, 1.0, 1e300),  # rad
    "joint speed": (1.0, 5.0, 15.0, 20.0, 50.0, 1e300),  # rad/s
    "joint torque": (1.0, 3.0, 7.0, 20.0, 1e3, 1e300),  # N·m
}
"""Channel → sizes of its spikes."""

OF_BASE, OF_IMU = ("base position", "base velocity"), ("specific force",)


class Ran(NamedTuple):
    """fell: whether the robot fell; named: what the server said from the fault on, the most frequent; modes: of the ticks"""

    fell: bool
    named: str
    modes: Counter[str]


class Spoiled(Loopback):
    """A client whose states are changed on their way."""

    change: Callable[[StateMessage], StateMessage] = staticmethod(lambda state: state)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.said: Counter[str] = Counter()

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        reply = super().exchange(self.change(state))
        said = reply.message if reply is not None else self.error.message if self.error is not None else ""
        if said and 1e-9 * state.t_robot >= BEGIN:
            self.said[re.split("[0-9]", said)[0]] += 1
        return reply


def plan_of(gait: str, base: str, *, noise: bool = True) -> Plan:
    """gait: 'trot' or 'stand'; base: 'measured' or 'estimated'"""
    settings = load("experiments", "trot-quadruped", ExperimentSettings)
    imu = ImuSettings(noise=0.1 if noise else 0.0) if base == "estimated" else None
    sensing = Sensing(noise=NOISE if noise else Spread(), imu=imu)
    controller: dict[str, Any] = {"estimator": {}}
    return build_plan(
        msgspec.structs.replace(
            settings,
            server="quadruped-trot" if gait == "trot" else "quadruped",
            engine=MujocoSettings(),
            contacts="geometry" if base == "estimated" else "binary",
            robot=ImperfectionSettings(sensing=sensing),
            controller=settings.controller | controller,
            duration=END,
        )
    )


class Rig:
    """A robot and its server, of which each run has a new session."""

    def __init__(self, gait: str, base: str, *, noise: bool = True) -> None:
        self.plan, self.base = plan_of(gait, base, noise=noise), base
        self.controller = build_controller(self.plan.controller)

    def run(self, change: Callable[[StateMessage], StateMessage] | None = None, seconds: float = END) -> Ran:
        client = Spoiled(Service(self.controller, self.plan.server), hello_of(self.plan, self.controller.robot))
        self.controller.reset()
        client.hello()
        side: RobotSide = simulated_robot(self.plan, client, seed=0)
        client.change = change or client.change
        posture = Posture(side.world.robot, terrain_of(self.plan), side.world.q)
        trace = side.run(seconds, posture=posture)
        named = client.said.most_common(1)
        modes = Counter(trace.modes[i] for i in trace.mode)
        return Ran(not posture.upright(trace.q), named[0][0] if named else "", modes)


def field(state: StateMessage, channel: str) -> tuple[str, slice]:
    """Return the field of a channel, 'imu.…' for one of the IMU, and its numbers."""
    imu = state.imu is not None
    first = (0, 0) if imu else (7, 6)
    return {
        "base attitude": ("imu.quat", slice(0, 4)) if imu else ("q", slice(3, 7)),
        "base rate": ("imu.gyro", slice(0, 3)) if imu else ("vel", slice(3, 6)),
        "base position": ("q", slice(0, 3)),
        "base velocity": ("vel", slice(0, 3)),
        "specific force": ("imu.acc", slice(0, 3)),
        "joint angle": ("q", slice(first[0] + 1, first[0] + 2)),
        "joint speed": ("vel", slice(first[1] + 1, first[1] + 2)),
        "joint torque": ("tau_meas" if imu else "tau_applied", slice(1, 2)),
        "all angles": ("q", slice(first[0], None)),
        "all speeds": ("vel", slice(first[1], None)),
    }[channel]


def numbers(state: StateMessage, name: str) -> np.ndarray:
    value = getattr(state.imu, name[4:]) if name.startswith("imu.") else getattr(state, name)
    return np.frombuffer(value).copy()


def filled(state: StateMessage, name: str, values: np.ndarray) -> StateMessage:
    data = values.tobytes()
    if name.startswith("imu."):
        return msgspec.structs.replace(state, imu=msgspec.structs.replace(state.imu, **{name[4:]: data}))
    return msgspec.structs.replace(state, **{name: data})


def during(state: StateMessage, length: float) -> bool:
    return BEGIN - 1e-6 <= 1e-9 * state.t_robot < BEGIN + length - 1e-6


def spike(channel: str, size: float) -> Callable[[StateMessage], StateMessage]:
    def change(state: StateMessage) -> StateMessage:
        name, part = field(state, channel)
        if not during(state, 1e-3):
            return state
        values = numbers(state, name)
        if channel == "base attitude":
            x, y, z, w = values[part]
            c, s = np.cos(size / 2), np.sin(size / 2)
            values[part] = w * s + x * c, y * c + z * s, z * c - y * s, w * c - x * s
        else:
            values[part.start] += size
        return filled(state, name, values)

    return change


def freeze(channels: tuple[str, ...], length: float) -> Callable[[StateMessage], StateMessage]:
    kept: dict[str, Any] = {}

    def change(state: StateMessage) -> StateMessage:
        if "contacts" in channels:
            last = kept.setdefault("contacts", state.contacts) if during(state, length) else state.contacts
            return msgspec.structs.replace(state, contacts=last)
        for channel in channels:
            name, part = field(state, channel)
            if during(state, length):
                values = numbers(state, name)
                values[part] = kept.setdefault(channel, values[part].copy())
                state = filled(state, name, values)
        return state

    return change


def flip(state: StateMessage) -> StateMessage:
    """Report no foot in one state."""
    return msgspec.structs.replace(state, contacts=[]) if during(state, 1e-3) else state


def cases(base: str) -> Iterator[tuple[str, Callable[[StateMessage], StateMessage]]]:
    """Yield name and change of each fault of a robot."""
    missing = OF_BASE if base == "estimated" else OF_IMU
    channels = [channel for channel in SPIKES if channel not in missing]
    for channel in channels:
        for size in SPIKES[channel]:
            yield f"spike of {channel}, {size:g}", spike(channel, size)
    groups = [(channel,) for channel in channels if channel != "joint torque"]
    whole = ("base attitude", "base rate", "specific force" if base == "estimated" else "base velocity")
    for group in (*groups, whole, ("all angles", "all speeds"), ("all speeds",)):
        for length in FREEZES:
            yield f"freeze of {' and '.join(group)}, {length:g} s", freeze(group, length)
    if base == "measured":
        yield "spike of contacts", flip
        for length in FREEZES:
            yield f"freeze of contacts, {length:g} s", freeze(("contacts",), length)


IMU = ("base attitude", "base rate", "specific force")
GAITS, BASES = ("stand", "trot"), ("measured", "estimated")


@cache
def rig(gait: str, base: str) -> Rig:
    return Rig(gait, base)


@every("gait", GAITS)
def test_one_sample_of_the_gyro_is_replaced(gait: str) -> None:
    ran = rig(gait, "estimated").run(spike("base rate", 7.0), 1.0)
    assert not ran.fell
    assert set(ran.modes) <= {"ok", "degraded"}


@every("gait", GAITS)
def test_a_frozen_imu_is_named_and_the_robot_holds_its_posture(gait: str) -> None:
    ran = rig(gait, "estimated").run(freeze(IMU, 0.4), 1.0)
    assert not ran.fell
    assert ran.named.startswith("the rate of the base has been frozen for")
    assert "failsafe:damping" not in ran.modes


def test_a_robot_without_noise_comes_to_rest_without_an_alarm() -> None:
    ran = Rig("stand", "estimated", noise=False).run(seconds=4.0)
    assert ran.modes["ok"] >= 3995
    assert "frozen" not in ran.named


def test_a_torque_sensor_of_1e300_is_harmless() -> None:
    assert not rig("stand", "estimated").run(spike("joint torque", SPIKES["joint torque"][-1]), 1.0).fell


@pytest.mark.long
def test_nearly_all_faults_of_sensors_are_harmless_and_the_others_named() -> None:
    runs, fell = 0, {}
    for gait, base in product(GAITS, BASES):
        for name, change in cases(base):
            ran, runs = rig(gait, base).run(change), runs + 1
            if ran.fell:
                fell[f"{gait}, {base}: {name}"] = ran.named
    print(f"{runs - len(fell)} of {runs} without a fall; fell: {fell}")
    assert all(fell.values())
    assert len(fell) <= 0.05 * runs
