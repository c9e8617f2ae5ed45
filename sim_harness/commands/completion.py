"""`idyn completion`: print a script that completes commands and options in a shell."""

import argparse
from typing import Any

import shtab

from sim_harness.commands.main import build_parser


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    print(shtab.complete(build_parser(), options.shell))
    return None, True
