"""`idyn bridge`: connect a robot by its own interface, or a running server with ROS 2."""

import argparse
import os
import sys
from contextlib import closing, nullcontext
from typing import Any

import numpy as np

from controllers.robot.load import load_robot
from idyn.errors import ConfigError, nearest
from sim_harness.commands.clients import address_of, end_by_signal, keys_of
from sim_harness.report.tables import Table, text_table
from transport.bridges.unitree import bridge as unitree
from transport.bridges.unitree.bridge import ServedRobot
from transport.bridges.unitree.dds import Bus, MotionSwitcher
from transport.bridges.unitree.low_level import LowLevel
from transport.bridges.unitree.low_state import PERIOD_NS, StateDecoder
from transport.bridges.unitree.messages import RawLog
from transport.bridges.unitree.robot import UnitreeRobot, unitree_robot
from transport.bridges.unitree.script import PostureMotion, Step, parse_script, read_script
from transport.robot.client import RobotClient, hello_for
from transport.server.process import real_time, steady

CONNECT_MS = 200  # time to wait for a server's answer to a request [ms]: the robot gets no commands meanwhile

CHECKLIST = """Before torque flows:
  - The robot lies on its belly on level ground, or hangs from a support; nobody is within 2 m.
  - Its own controller is released (--release does it), and its remote control is in your hand: L2+B damps.
  - The battery is above 30 %.
  - DDS knows no keys: every process on the network '{interface}' can command this robot.
Motors: up to {most} N·m by limits of the model. The bridge ends with damping; the robot then sinks."""


def run_unitree(options: argparse.Namespace) -> tuple[Any, bool]:
    robot = unitree_robot(options.robot)
    model, default = robot.model, "stand 10\nlie" if "lie" in robot.postures else "stand 10"
    steps = parse_script(default, "default") if options.script is None else read_script(options.script)
    if "lie" not in robot.postures and any(step.word == "lie" for step in steps):
        raise ConfigError("script", f"{options.robot} cannot lie down")
    for name in (name for step in steps for name in step.joints):
        if name not in model.joint_names:
            raise ConfigError("script", f"unknown joint '{name}'{nearest(name, model.joint_names)}")
    if not (options.dry_run or options.yes):
        _confirm(CHECKLIST.format(interface=options.interface, most=f"{float(model.limits.tau_max.max()):g}"))
    decoder, bus = StateDecoder(robot), Bus(options.domain, options.interface)
    if options.dry_run:
        return _show(LowLevel(decoder, bus), steps)
    if options.release:
        print(f"released the robot's own controller: {MotionSwitcher(bus).release() or 'none was active'}")
    end = end_by_signal()
    recording = nullcontext() if options.log is None else closing(RawLog(options.log, robot.family))
    with real_time("auto"), steady(), recording as log:
        link = LowLevel(decoder, bus, log)
        report = unitree.Bridge(link, print, _served(options, robot)).run(steps, end.is_set)
    print(text_table(_table(report)))
    for mode, count in sorted(report.modes.items()):
        print(f"{mode}: {count}")
    if report.ended:
        print(report.ended)
    return _figures(report), not report.ended


def _served(options: argparse.Namespace, robot: UnitreeRobot) -> ServedRobot | None:
    """Return what answers states by a server; None without `--connect`."""
    if options.connect is None:
        return None
    hello = hello_for(robot.model, 1e-9 * PERIOD_NS, name=f"bridge {options.robot}", measured="imu")
    client = RobotClient(options.connect, hello, connect_ms=CONNECT_MS)
    return ServedRobot(robot, client)


def _confirm(checklist: str) -> None:
    """Ask the user to confirm a checklist. Raises ConfigError without a confirmation."""
    print(checklist)
    if not sys.stdin.isatty():
        raise ConfigError("--yes", "expected a terminal to confirm the checklist, or --yes")
    if input("Type 'yes' to go on: ").strip() != "yes":
        raise ConfigError("checklist", "not confirmed; nothing was sent")


def _show(link: LowLevel, steps: list[Step]) -> tuple[Any, bool]:
    """Print the present angles and the goal of the first step. Nothing is sent."""
    state, motors, joints = link.state(5.0), link.decoder.motors.tolist(), link.decoder.joints
    if state is None:
        raise ConfigError("robot", "no state within 5 s; is the domain right, and the interface?")
    goals = link.decoder.robot.postures[steps[0].word]
    motion = PostureMotion(link.decoder.robot, state, goals)
    last = motion.command(state.t + motion.seconds)
    rows = [["joint", "motor", "angle rad", "goal rad", "kp N·m/rad", "kd N·m·s/rad"]]
    for k, name in enumerate(joints):
        rows.append([name, str(motors[k]), f"{state.q[k]:.3f}", f"{goals[k]:.3f}", f"{last.kp[k]:.3g}", f"{last.kd[k]:.3g}"])
    print(f"Nothing is sent. First step: {steps[0].word}, {motion.seconds:.1f} s.")
    print(text_table(rows))
    return {"joints": dict(zip(joints, state.q.tolist(), strict=True))}, True


def _figures(report: unitree.Report) -> dict[str, Any]:
    def quantiles(values: Any) -> list[float]:
        return np.quantile(values, [0.5, 0.99, 1.0]).tolist() if len(values) else []

    return {
        "answered": report.answered,
        "missed": report.missed,
        "period_ms": quantiles(1e3 * report.periods),
        "delay_us": quantiles(1e6 * report.delays),
        "tilt_rad": float(report.tilts.max(initial=0.0)),
        "torque_Nm": float(report.torques.max(initial=0.0)),
        "modes": report.modes,
        "ended": report.ended,
    }


def _table(report: unitree.Report) -> Table:
    figures = _figures(report)
    rows = [["states answered", "missed", "period ms p50", "p99", "longest", "delay µs p50", "p99", "tilt rad", "torque N·m"]]
    period, delay = figures["period_ms"] or [np.nan] * 3, figures["delay_us"] or [np.nan] * 3
    cells = [f"{value:.3g}" for value in (*period, *delay[:2], figures["tilt_rad"], figures["torque_Nm"])]
    return [*rows, [str(report.answered), str(report.missed), *cells]]


MOST_RATE = 500.0  # largest number of states per second: a server has 5 % of its time for all other clients than the robot's

ROS2_CHECKLIST = "DDS knows no keys: every process on the network '{}' can command this robot by /cmd_vel and /joint_commands."


def run_ros2(options: argparse.Namespace) -> tuple[Any, bool]:
    from transport.bridges.ros2 import bridge as ros2  # noqa: PLC0415 - needs an extra of its own

    if not 0.0 < options.rate <= MOST_RATE:
        raise ConfigError("--rate", f"expected a rate of 0 to {MOST_RATE:g} per second, got {options.rate:g}")
    keys = keys_of(options)
    domain = _domain(options.domain)
    if not (options.read_only or options.yes or options.interface == "lo"):
        _confirm(ROS2_CHECKLIST.format(options.interface))
    end = end_by_signal()
    endpoint = address_of(options)
    with steady(), closing(ros2.ServerLink(endpoint, None if options.read_only else options.name, keys)) as link:
        robot, _ = load_robot(options.robot or str(link.settings.get("robot", "")))
        bridge = ros2.Bridge(robot, ros2.Bus(domain, options.interface), link, commands=not options.read_only)
        print(f"{robot.name}: {endpoint} and DDS domain {domain} on {options.interface}; Ctrl-C ends", flush=True)
        bridge.run(1.0 / options.rate, end)
    print(", ".join(f"{name}: {count}" for name, count in bridge.counts.items()))
    return bridge.counts, True


def _domain(given: int | None) -> int:
    """Return the DDS domain. Raises ConfigError for a ROS_DOMAIN_ID that is no number."""
    text = os.environ.get("ROS_DOMAIN_ID", "0") if given is None else str(given)
    if not text.isdecimal():
        raise ConfigError("ROS_DOMAIN_ID" if given is None else "--domain", f"expected a number ≥ 0, got '{text}'")
    return int(text)
