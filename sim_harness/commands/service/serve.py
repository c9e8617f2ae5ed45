"""`idyn serve`: run the torque server."""

import argparse
import logging
from typing import Any

import msgspec

from controllers.config.loading import load
from transport.server.settings import ServerSettings
from transport.startup.serve import serve


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = load("server", options.config, ServerSettings)
    changes = {name: getattr(options, name) for name in ("endpoint", "robot_endpoint", "law")}
    settings = msgspec.structs.replace(settings, **{name: value for name, value in changes.items() if value is not None})
    serve(settings, log_path=options.log, ready=lambda endpoint: print(f"serving at {endpoint}", flush=True))
    return None, True
