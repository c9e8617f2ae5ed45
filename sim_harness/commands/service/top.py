"""`idyn top`: one screen of a running server, by requests of a client without a session."""

import argparse
import sys
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any, NamedTuple

from idyn.errors import ConfigError
from transport.keys import Keys, client_keys
from transport.protocol.messages.requests import Config, ConfigGet, Stats, StatsGet
from transport.protocol.printable import printable, raw
from transport.robot.conversation import ConnectionFailed, expected
from transport.robot.observer import Observer
from transport.server.settings import runtime_directory

PERIOD_S = 1.0
"""Interval of the requests [s]."""

CLEAR = "\x1b[H\x1b[J"
"""Moves to the upper left corner of a terminal and clears it."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if (options.secret is None) != (options.server_key is None):
        raise ConfigError("--secret", "expected --secret and --server-key together, got only one of them")
    keys = None if options.secret is None else client_keys(options.secret, options.server_key)
    endpoint = options.endpoint or f"ipc://{runtime_directory() / 'idyn.sock'}"
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
                    sleep(PERIOD_S)
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
    return Sample(monotonic(), expected(observer.ask(StatsGet()), Stats))


def _title(endpoint: str, observer: Observer) -> str:
    """Return address, robot and law of a server."""
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
