"""The options of all commands. This module imports no numerics: `idyn COMMAND --help` and shell completion are quick.

Each group of commands is a package with a module `options`. A function there has the name of its command (`warm_up` is
`idyn warm-up`) and adds its options to a parser. `run` of the module with the command's name in the same package gets them.
"""

from argparse import ArgumentParser
from collections.abc import Callable

from sim_harness.commands.bridges.options import bridge
from sim_harness.commands.foreign.options import judge
from sim_harness.commands.logs.options import export, replay, view
from sim_harness.commands.runs.options import bench, compare, demo, pauses, simulate
from sim_harness.commands.service.options import conform, drive, plan, serve, top
from sim_harness.commands.setup.options import check, doctor, keys, list_, new, warm_up


def completion(parser: ArgumentParser) -> None:
    """Print a script that completes commands and options in a shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="shell that shall complete commands and options")


COMMANDS: dict[str, Callable[[ArgumentParser], None]] = {
    "demo": demo,
    "serve": serve,
    "drive": drive,
    "plan": plan,
    "bridge": bridge,
    "top": top,
    "simulate": simulate,
    "replay": replay,
    "export": export,
    "view": view,
    "compare": compare,
    "judge": judge,
    "pauses": pauses,
    "bench": bench,
    "conform": conform,
    "doctor": doctor,
    "check": check,
    "list": list_,
    "new": new,
    "keys": keys,
    "warm-up": warm_up,
    "completion": completion,
}
"""Name of each command, as in `idyn NAME`, and what adds its options; its first line is the command's summary."""
