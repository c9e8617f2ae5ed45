"""`idyn serve` and `conform`: run the torque server, try the wire protocol."""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from controllers.build import load_controller
from controllers.config.loading import load
from idyn.errors import ConfigError
from sim_harness.conform.client import try_client
from sim_harness.conform.probe import Outcome
from sim_harness.conform.server import try_server
from transport.server.settings import ServerSettings
from transport.startup.serve import serve


def run_serve(options: argparse.Namespace) -> tuple[Any, bool]:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = load("server", options.config, ServerSettings)
    changes = {name: getattr(options, name) for name in ("endpoint", "robot_endpoint", "law")}
    settings = msgspec.structs.replace(settings, **{name: value for name, value in changes.items() if value is not None})
    serve(settings, log_path=options.log, ready=lambda endpoint: print(f"serving at {endpoint}", flush=True))
    return None, True


def run_conform(options: argparse.Namespace) -> tuple[Any, bool]:
    if (options.endpoint is None) == (options.robot is None):
        raise ConfigError("idyn conform", "expected the address of a server, or --robot CMD")
    found = []
    for outcome in _outcomes(options):
        print(outcome, flush=True)
        found.append(outcome)
    count = {state: sum(outcome.state == state for outcome in found) for state in ("passed", "wrong", "not seen")}
    print(", ".join(f"{number} {state}" for state, number in count.items()))
    return [outcome._asdict() for outcome in found], not count["wrong"] and count["passed"] > 0


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    settings = load("server", options.config, ServerSettings)
    controller = load_controller(settings.controller, settings.changes)
    if options.robot is None:
        yield from try_server(options.endpoint, controller.robot, controller.stance, options.only)
    else:
        with tempfile.TemporaryDirectory(prefix="idyn-") as folder:
            yield from try_client(options.robot, f"ipc://{folder}/s", controller, settings, options.only)
