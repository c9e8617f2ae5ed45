"""`idyn warm-up`: fill the kernel cache for a server."""

import argparse
import logging
import time
from typing import Any

from controllers.build import load_controller
from controllers.config.loading import load
from idyn.jit.cache import root
from transport.server.settings import ServerSettings
from transport.startup.warm_up import Precompilation


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings, begin = load("server", options.config, ServerSettings), time.perf_counter()
    precompilation = Precompilation(load_controller(settings.controller, settings.changes))
    try:
        precompilation.run(settings)
        precompilation.finish()
    finally:
        precompilation.close()
    seconds = time.perf_counter() - begin
    print(f"kernels in {root()}: ready after {seconds:.1f} s")
    return {"seconds": seconds, "cache": str(root())}, True
