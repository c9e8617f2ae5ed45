"""`idyn drive` and `top`: clients of a running server that steer its robot or show its work."""

import argparse
import curses
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import ConfigError
from sim_harness.gamepad import HELP as PAD_HELP
from sim_harness.gamepad import LIFT, Gamepad, Wish
from transport.keys import Keys, client_keys
from transport.protocol.errors import printable, raw
from transport.protocol.messages.requests import Config, ConfigGet, Stats, StatsGet
from transport.robot.client import ConnectionFailed, expected
from transport.robot.planner import CommandRefused, Observer, PlannerClient
from transport.server.settings import runtime_directory


def address_of(options: argparse.Namespace) -> str:
    """Return the address of the server: the given one, or the socket in the user's runtime folder."""
    return options.endpoint or f"ipc://{runtime_directory() / 'idyn.sock'}"


def keys_of(options: argparse.Namespace) -> Keys | None:
    """Return the keys of a client, None without `--secret`. Raises ConfigError for one of two options alone."""
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    return None if options.secret is None else client_keys(options.secret, options.server_key)


def end_by_signal() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    return end


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

LIFTS = {ord("r"): LIFT, ord("f"): -LIFT}  # key → change of the height [m]

STOP, QUIT = ord(" "), (ord("x"), 27, 3)

HELP = "w/s forward, back   q/e left, right   a/d turn left, right   r/f up, down   space: stand   x: quit"


def run_drive(options: argparse.Namespace) -> tuple[Any, bool]:
    if not sys.stdin.isatty():
        raise ConfigError("stdin", "expected a terminal, whose keys steer the robot")
    endpoint, keys = address_of(options), keys_of(options)
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
            # what rests in the stance is left out, so that controllers without it are commanded too
            attitude = wish.attitude if wish.attitude.any() else None
            planner.command(wish.velocity, height=wish.height or None, attitude=attitude, valid_for=VALID_S)
            sent, outcome = sent + 1, "accepted"
        except (CommandRefused, ConnectionFailed) as error:
            outcome = f"refused: {printable(str(error))}"
        screen.addstr(2, 0, f"{_told(wish)}   {outcome}"[: curses.COLS - 1])
        screen.clrtoeol()
        screen.refresh()


def _told(wish: Wish) -> str:
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


PERIOD_S = 1.0  # interval of the requests [s]
CLEAR = "\x1b[H\x1b[J"  # moves to the upper left corner of a terminal and clears it


def run_top(options: argparse.Namespace) -> tuple[Any, bool]:
    endpoint, keys = address_of(options), keys_of(options)
    terminal = sys.stdout.isatty() and not options.once
    try:
        for title, shown in _screens(endpoint, keys):
            if terminal or options.once:
                if terminal:
                    raw(sys.stdout).write(CLEAR)
                print("\n".join([title, *(f"  {name:18s} {printable(value)}" for name, value in shown.items())]), flush=True)
            else:
                print("  ".join(f"{name}: {printable(value)}" for name, value in shown.items()), flush=True)
            if options.once:
                break
    except KeyboardInterrupt:
        print()
    return None, True


def _screens(endpoint: str, keys: Keys | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield title and rows after each period. A server that ends later is waited for. Raises ConnectionFailed without one."""
    title, known = "", False
    while True:
        with Observer(endpoint, keys=keys) as observer:
            try:
                title, before = _title(endpoint, observer), _sample(observer)
                known = True
                while True:
                    time.sleep(PERIOD_S)
                    now = _sample(observer)
                    yield title, rows(before, now)
                    before = now
            except ConnectionFailed as failed:
                if not known:
                    raise
                yield title, {"server": str(failed)}


class Sample(NamedTuple):
    """Statistics at a time of this process [s]."""

    time: float
    stats: Stats


def _sample(observer: Observer) -> Sample:
    return Sample(time.monotonic(), expected(observer.ask(StatsGet()), Stats))


def _title(endpoint: str, observer: Observer) -> str:
    law = expected(observer.ask(ConfigGet()), Config).settings.get("law", "")
    return printable(f"{endpoint}  law {law.get('kind', '') if isinstance(law, dict) else law}")


def rows(before: Sample, now: Sample) -> dict[str, str]:
    """Return name → value of what is shown: rates and means between two samples, counts since the server's start."""
    old, new = before.stats, now.stats
    period, torques = now.time - before.time, new.torques - old.torques
    comm = new.comm

    def mean(last: float, first: float) -> str:
        """The mean between the samples, from the means since the start."""
        return f"{(last * new.torques - first * old.torques) / torques:.0f} µs" if torques > 0 else "–"

    unknown = comm is None or comm.rtt_p50_us is None
    return {
        "states": f"{(new.states - old.states) / period:.0f} /s",
        "torques": f"{torques / period:.0f} /s",
        "round trip": "–" if comm is None or unknown else f"{comm.rtt_p50_us:.0f} µs, 99 %: {comm.rtt_p99_us:.0f} µs",
        "step": f"{mean(new.step_us_mean, old.step_us_mean)}, largest {new.step_us_max:.0f} µs",
        "late answers": f"{new.deadline_misses} of {new.torques}",
        "lost states": "–" if comm is None else f"{comm.lost}, overtaken {comm.late}, out of order {comm.out_of_order}",
        "refused": ", ".join(f"{code} {count}" for code, count in sorted(new.refused.items())) or "0",
        "dropped": str(new.dropped),
        "others": f"{mean(new.others_us_mean, old.others_us_mean)} per torque",
        "fault": new.fault or "none",
    }
