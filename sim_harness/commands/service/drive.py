"""`idyn drive`: steer the robot of a running server from the keyboard or a gamepad."""

import argparse
import curses
import sys
from contextlib import closing, nullcontext
from typing import Any

import numpy as np

from idyn.errors import ConfigError
from sim_harness.gamepad import HELP as PAD_HELP
from sim_harness.gamepad import LIFT, Gamepad, Wish
from transport.keys import client_keys
from transport.protocol.printable import printable
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

LIFTS = {ord("r"): LIFT, ord("f"): -LIFT}
"""Key → change of the height [m]."""

STOP, QUIT = ord(" "), (ord("x"), 27, 3)

HELP = "w/s forward, back   q/e left, right   a/d turn left, right   r/f up, down   space: stand   x: quit"


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if not sys.stdin.isatty():
        raise ConfigError("stdin", "expected a terminal, whose keys steer the robot")
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    keys = None if options.secret is None else client_keys(options.secret, options.server_key)
    endpoint = options.endpoint or f"ipc://{runtime_directory() / 'idyn.sock'}"
    gamepad = closing(Gamepad()) if options.gamepad else nullcontext()
    with gamepad as pad, PlannerClient(endpoint, options.name, timeout_ms=2000, keys=keys) as planner:
        sent, note = curses.wrapper(_drive, planner, pad)
    if note:
        print(note)
    return {"commands": sent}, not note


def _drive(screen: "curses.window", planner: PlannerClient, pad: Gamepad | None) -> tuple[int, str]:
    """Send commands until the user quits; show what happens in one line. Return the number of accepted commands, and why the
    gamepad ended it, '' for the user."""
    curses.raw()  # Ctrl-C is a key: the terminal is restored before the process ends
    screen.timeout(PERIOD_MS)
    screen.addstr(0, 0, f"{printable(planner.welcome.model_name)}   {HELP if pad is None else PAD_HELP}"[: curses.COLS - 1])
    wish, sent = Wish(), 0
    while True:
        key = screen.getch()
        wish = _changed(wish, key) if pad is None else pad.read()
        if key in QUIT or wish.quits:
            return sent, wish.note
        try:
            sent, outcome = sent + _command(planner, wish), "accepted"
        except (CommandRefused, ConnectionFailed) as error:
            outcome = f"refused: {printable(str(error))}"
        screen.addstr(2, 0, f"{_told(wish)}   {outcome}"[: curses.COLS - 1])
        screen.clrtoeol()
        screen.refresh()


def _command(planner: PlannerClient, wish: Wish) -> bool:
    """Send a command; what rests in the stance is left out, so that controllers without it are commanded too."""
    height, attitude = wish.height or None, wish.attitude if wish.attitude.any() else None
    planner.command(wish.velocity, height=height, attitude=attitude, valid_for=VALID_S)
    return True


def _told(wish: Wish) -> str:
    """Return what is commanded, in one line."""
    forward, left, turn = wish.velocity
    line = f"forward {forward:+.2f} m/s   left {left:+.2f} m/s   turn {turn:+.2f} rad/s"
    line += f"   height {wish.height:+.2f} m" if wish.height else ""
    roll, pitch = wish.attitude
    return line + (f"   roll {roll:+.2f}   pitch {pitch:+.2f} rad" if wish.attitude.any() else "")


def _changed(wish: Wish, key: int) -> Wish:
    """Return the command after a key, rounded to hundredths so that a way and back leads to zero."""
    if key == STOP:
        return Wish()
    velocity = np.round(wish.velocity + STEPS.get(key, (0.0, 0.0, 0.0)), 2) + 0.0
    return Wish(velocity=velocity, height=round(wish.height + LIFTS.get(key, 0.0), 2) + 0.0)
