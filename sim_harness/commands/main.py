"""`idyn`: the entry point of the command line. Each subcommand is a file in `sim_harness.commands`, imported when it runs."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

# Matrices are small: a second BLAS thread costs more than it gains. BLAS reads these variables when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from idyn import __version__
from idyn.errors import IdynError
from sim_harness.commands.figures import run_command

COMMANDS = {
    "demo": "let a simulated robot walk with every contact law",
    "serve": "run the torque server until it is stopped",
    "drive": "steer the robot of a running server from the keyboard or a gamepad",
    "top": "show the work of a running server, once per second",
    "simulate": "simulate the robot of an experiment, or the bodies of a scene",
    "replay": "compute the torques of a log again, with the same or another law",
    "export": "convert a log for other tools: MCAP with JSON messages and a schema",
    "view": "write a self-contained page that shows a run in three dimensions",
    "compare": "compare controllers with the paper's numbers, engines on scenes, or recorded logs",
    "pauses": "stop the server's or the robot's process during a trot and report the outcome",
    "bench": "measure run times of the contact laws and of the server on this machine",
    "doctor": "report what this installation has, and what limits 1 kHz on this machine",
    "check": "check a configuration, a URDF, or the states of a log",
    "list": "list robots, laws, engines, experiments, scenes, and all settings with their meaning",
    "new": "write a configuration for a robot from its URDF",
    "keys": "create a key pair for a server or a client",
    "warm-up": "compile all kernels of a server into the cache, for images and CI",
}
"""Name and summary of each command."""


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser that knows all commands by name, and the options of the one that the arguments call."""
    parser = argparse.ArgumentParser(
        prog="idyn", description="Inverse dynamics with contact: forces and torques predicted together, served at 1 kHz."
    )
    parser.add_argument("--version", action="version", version=f"idyn {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == called:
            import_module(f"sim_harness.commands.{name.replace('-', '_')}").add_options(command)
    return parser


def check_platform(platform: str) -> None:
    """Raise IdynError on systems that idyn does not run on. platform: as `sys.platform`"""
    if platform in ("win32", "cygwin"):
        raise IdynError("idyn does not run on Windows: it needs ipc sockets and signals of POSIX; install it in WSL 2")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return 0 for a good result, 1 for a bad one, 2 for an error, 130 after an interrupt."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        check_platform(sys.platform)
        options = build_parser(words).parse_args(words)
        return 0 if run_command(options) else 1
    except IdynError as error:
        print(f"idyn: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output has ended, as in `idyn list | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at its end
        return 1
    except OSError as error:
        print(f"idyn: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("idyn: interrupted", file=sys.stderr)
        return 130
