"""`idyn doctor`: what this installation has, and what limits 1 kHz on this machine."""

import argparse
import shutil
import textwrap
from functools import partial
from typing import Any

from idyn.jit.compiled import compiling
from sim_harness.bench.machine import Fact, facts
from sim_harness.bench.round_trips import bench_server
from sim_harness.commands.output import progress_bar
from sim_harness.commands.setup.list import WIDTH

PERIOD_US = 1000.0

TOLERATED = 1e-3
"""Share of late answers with which 1 kHz counts as held."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    found, good = [], True
    for fact in facts():
        found.append(fact)
        _print(fact)
    if options.ticks:
        fact, good = _round_trip(options.ticks)
        found.append(fact)
        _print(fact)
    limits = [fact for fact in found if fact.advice and not fact.name.startswith("extra")]
    print("1 kHz: " + ("held" if good else "not held") if options.ticks else "1 kHz: not tested")
    if limits:
        print(f"what may limit it: {', '.join(fact.name for fact in limits)}")
    return [fact._asdict() for fact in found], good


def _round_trip(ticks: int) -> tuple[Fact, bool]:
    """Return the round trips of a server of the quadruped at 1 kHz, and whether it holds this rate."""
    with compiling(partial(print, flush=True)), progress_bar(2 * ticks) as progress:
        figures = bench_server(ticks, progress)
    share = figures["misses"] / figures["ticks"]
    value = (
        f"{figures['p50_us']:.0f} µs, 99 %: {figures['p99_us']:.0f} µs, {100 * share:.2g} % later than 1 ms; "
        f"an echo {figures['echo_p50_us']:.0f} µs, 99 %: {figures['echo_p99_us']:.0f} µs"
    )
    advice = ""
    if share > TOLERATED:
        slow_echo = figures["echo_p99_us"] > PERIOD_US / 2
        advice = "a bare echo is late too: the machine is busy or slow to wake up" if slow_echo else "the server takes too long"
    return Fact("round trip of a server", value, advice), share <= TOLERATED


def _print(fact: Fact) -> None:
    width = min(shutil.get_terminal_size().columns, WIDTH)
    for k, line in enumerate(textwrap.wrap(fact.value, width - 26) or [""]):
        print(f"{fact.name if k == 0 else '':24s}  {line}")
    for k, line in enumerate(textwrap.wrap(fact.advice, width - 28)):
        print(f"{'':24s}  {'→ ' if k == 0 else '  '}{line}")
