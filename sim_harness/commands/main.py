"""`idyn`: the entry point of the command line. Each subcommand is a file in `sim_harness.commands`."""

import argparse
import os
import sys
from collections.abc import Sequence

# Matrices are small: a second BLAS thread costs more than it gains. BLAS reads these variables when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from idyn import __version__
from idyn.errors import IdynError
from sim_harness.commands import (
    bench,
    check,
    compare,
    demo,
    drive,
    export,
    keys,
    pauses,
    replay,
    serve,
    simulate,
    view,
    warm_up,
)
from sim_harness.commands.output import run_command

COMMANDS = (demo, serve, drive, simulate, replay, export, view, compare, pauses, bench, check, keys, warm_up)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="idyn", description="Inverse dynamics with contact: forces and torques predicted together, served at 1 kHz."
    )
    parser.add_argument("--version", action="version", version=f"idyn {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 for a good result, 1 for a bad one, 2 for an error, 130 after an interrupt."""
    options = build_parser().parse_args(arguments)
    try:
        return 0 if run_command(options) else 1
    except IdynError as error:
        print(f"idyn: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"idyn: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("idyn: interrupted", file=sys.stderr)
        return 130
