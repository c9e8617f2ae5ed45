"""Figures of commands, and their JSON output.

A command's `run` takes the parsed options, prints tables, and returns its figures and whether they are good.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError

Run = Callable[[argparse.Namespace], tuple[Any, bool]]
"""`run` of a command."""


def run_command(run: Run, options: argparse.Namespace) -> bool:
    """Run the command and write its figures as JSON when `--json` is given. Return whether the figures are good."""
    target: str | None = getattr(options, "json", None)
    _check_json(target)
    with redirect_stdout(sys.stderr) if target == "-" else nullcontext():
        figures, good = run(options)
    if target:
        _write_json(figures, target)
    return bool(good)


def _check_json(target: str | None) -> None:
    """Check that the file can be created, before the command runs. Raises ConfigError."""
    if target and (Path(target).is_dir() or not Path(target).parent.is_dir()):
        raise ConfigError("--json", f"expected a file in an existing folder, got {target}")


def _write_json(data: Any, target: str) -> None:
    """Write JSON to a file, or to stdout for '-'. NaN and infinity become null."""
    text = msgspec.json.format(msgspec.json.encode(data, enc_hook=float)).decode()
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")
