"""`idyn drive`: steer the robot of a running server from the keyboard."""

import argparse
import curses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from idyn.types import Array
from transport.keys import client_keys
from transport.robot.conversation import ConnectionFailed
from transport.robot.planner import CommandRefused, PlannerClient
from transport.server.settings import runtime_directory

PERIOD_MS, VALID_S = 50, 0.3
"""Period of the commands [ms], and their validity [s]: the robot stands when this process ends or hangs."""

STEPS: dict[int, tuple[float, float, float]] = {
    ord("w"): (0.05, 0.0, 0.0),
    ord("s"): (-0.05, 0.0, 0.0),
    ord("q"): (0.0, 0.05, 0.0),
    ord("e"): (0.0, -0.05, 0.0),
    ord("a"): (0.0, 0.0, 0.1),
    ord("d"): (0.0, 0.0, -0.1),
}
"""Key → change of the velocity forward, left [m/s], turn [rad/s]."""

STOP, QUIT = ord(" "), (ord("x"), 27, 3)

HELP = "w/s forward, back   q/e left, right   a/d turn left, right   space: stand   x: quit"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("endpoint", nargs="?", help="address of the server (default: the socket in the user's runtime folder)")
    parser.add_argument("--name", default="drive", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--secret", type=Path, metavar="FILE", help="secret key of the role 'plan', for a server with [curve]")
    parser.add_argument("--server-key", metavar="KEY", help="public key of the server")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if not sys.stdin.isatty():
        raise ConfigError("stdin", "expected a terminal, whose keys steer the robot")
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    keys = None if options.secret is None else client_keys(options.secret, options.server_key)
    endpoint = options.endpoint or f"ipc://{runtime_directory() / 'idyn.sock'}"
    with PlannerClient(endpoint, options.name, timeout_ms=2000, keys=keys) as planner:
        sent = curses.wrapper(_drive, planner)
    return {"commands": sent}, True


def _drive(screen: "curses.window", planner: PlannerClient) -> int:
    """Send commands until the user quits; show what happens in one line. Return the number of accepted commands."""
    curses.raw()  # Ctrl-C is a key: the terminal is restored before the process ends
    screen.timeout(PERIOD_MS)
    screen.addstr(0, 0, f"{planner.welcome.model_name}   {HELP}"[: curses.COLS - 1])
    velocity, sent = np.zeros(3), 0
    while True:
        key = screen.getch()
        if key in QUIT:
            return sent
        velocity = _changed(velocity, key)
        try:
            planner.command(velocity, valid_for=VALID_S)
            sent, outcome = sent + 1, "accepted"
        except (CommandRefused, ConnectionFailed) as error:
            outcome = f"refused: {error}"
        forward, left, turn = velocity
        line = f"forward {forward:+.2f} m/s   left {left:+.2f} m/s   turn {turn:+.2f} rad/s   {outcome}"
        screen.addstr(2, 0, line[: curses.COLS - 1])
        screen.clrtoeol()
        screen.refresh()


def _changed(velocity: Array, key: int) -> Array:
    """Return the velocity after a key, rounded to hundredths so that a way and back leads to zero."""
    if key == STOP:
        return np.zeros(3)
    return np.round(velocity + STEPS.get(key, (0.0, 0.0, 0.0)), 2) + 0.0
