"""`idyn`: the entry point of the command line.

`run_NAME` of a command's module takes the parsed options, prints tables, and returns figures and whether they are good.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO, cast

import msgspec

# Matrices are small: a second BLAS thread costs more than it gains. BLAS reads these variables when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from idyn import __version__
from idyn.errors import ConfigError, IdynError
from sim_harness.commands.options import COMMANDS
from sim_harness.compare.studies import study_module
from transport.protocol.errors import Screen

LIBRARY = "libgomp.so.1"  # library that the wheels of Pinocchio load from the system; minimal systems do not have it


def build_parser() -> argparse.ArgumentParser:
    """Return a parser of all commands and their options."""
    parser = argparse.ArgumentParser(
        prog="idyn", description="Inverse dynamics with contact: forces and torques predicted together, served at 1 kHz."
    )
    parser.add_argument("--version", action="version", version=f"idyn {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        summary = (command.add_options.__doc__ or "").rstrip(".")
        subparser = subparsers.add_parser(name, help=f"{summary[0].lower()}{summary[1:]}", description=f"{summary}.")
        subparser.set_defaults(module=command.module, command=name.replace("-", "_"))
        command.add_options(subparser)
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
        with redirect_stdout(cast(TextIO, Screen(sys.stdout))), redirect_stderr(cast(TextIO, Screen(sys.stderr))):
            options = build_parser().parse_args(words)
            return 0 if _run(options) else 1
    except IdynError as error:
        print(f"idyn: {error}", file=Screen(sys.stderr))
        return 2
    except ImportError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):  # in the initialisation of a C++ module
            return _interrupted()
        if LIBRARY not in str(error):
            raise
        print(f"idyn: Pinocchio needs {LIBRARY} of the system; Debian, Ubuntu: apt install libgomp1", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output has ended, as in `idyn list | head`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at its end
        return 1
    except OSError as error:
        print(f"idyn: {error.filename or 'system'}: {error.strerror or error}", file=Screen(sys.stderr))
        return 2
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    eval("None")  # CPython 3.11 ends by the signal, not by our code, if the last evaluated string was interrupted
    print("idyn: interrupted", file=sys.stderr)
    return 130


def _run(options: argparse.Namespace) -> bool:
    """Run a command. With `--json`, write its figures to a file, or to stdout for '-'; NaN and infinity become null.

    Return whether the figures are good.
    """
    run = getattr(study_module(options.command, f"sim_harness.{options.module}"), f"run_{options.command}")
    target: str | None = getattr(options, "json", None)
    if target and (Path(target).is_dir() or not Path(target).parent.is_dir()):
        raise ConfigError("--json", f"expected a file in an existing folder, got {target}")
    with redirect_stdout(sys.stderr) if target == "-" else nullcontext():
        figures, good = run(options)
    if target:
        text = msgspec.json.format(msgspec.json.encode(figures, enc_hook=float)).decode()
        if target == "-":
            print(text)
        else:
            Path(target).write_text(text + "\n", encoding="utf-8")
    return bool(good)
