"""`idyn serve`: run the torque server."""

import argparse
import logging
from pathlib import Path
from typing import Any

import msgspec

from controllers.config.loading import load
from transport.serve import serve
from transport.server.settings import ServerSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="name or path of a server configuration")
    parser.add_argument("--endpoint", help="address to bind, ipc://… or tcp://… (default: the configuration's)")
    parser.add_argument("--law", help="contact law (default: the configuration's)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="record all messages in this MCAP file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = load("server", options.config, ServerSettings)
    changes = {name: getattr(options, name) for name in ("endpoint", "law")}
    settings = msgspec.structs.replace(settings, **{name: value for name, value in changes.items() if value is not None})
    serve(settings, log_path=options.log, ready=lambda endpoint: print(f"serving at {endpoint}", flush=True))
    return None, True
