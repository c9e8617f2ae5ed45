"""`idyn bridge ros2`: the robot of a running server as topics of ROS 2."""

import argparse
import os
import signal
import threading
from contextlib import closing
from typing import Any

from controllers.robot.load import load_robot
from idyn.errors import ConfigError
from sim_harness.commands.output import confirm
from transport.bridges.ros2.bridge import Bridge, ServerLink
from transport.bridges.ros2.dds import Bus
from transport.keys import client_keys
from transport.server.realtime import steady
from transport.server.settings import runtime_directory

MOST_RATE = 500.0
"""Largest number of states per second: a server has 5 % of its time for all other clients than the robot's."""

CHECKLIST = "DDS knows no keys: every process on the network '{}' can command this robot by /cmd_vel and /joint_commands."


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if not 0.0 < options.rate <= MOST_RATE:
        raise ConfigError("--rate", f"expected a rate of 0 to {MOST_RATE:g} per second, got {options.rate:g}")
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    keys = None if options.secret is None else client_keys(options.secret, options.server_key)
    domain = _domain(options.domain)
    if not (options.read_only or options.yes or options.interface == "lo"):
        confirm(CHECKLIST.format(options.interface))
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    endpoint = options.endpoint or f"ipc://{runtime_directory() / 'idyn.sock'}"
    with steady(), closing(ServerLink(endpoint, None if options.read_only else options.name, keys)) as link:
        robot, _ = load_robot(options.robot or str(link.settings.get("robot", "")))
        bridge = Bridge(robot, Bus(domain, options.interface), link, commands=not options.read_only)
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
