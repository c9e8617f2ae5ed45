"""The options of the commands for configurations, keys and the installation."""

from argparse import ArgumentParser
from pathlib import Path

from sim_harness.commands.shared_options import add_json

LISTS = ("robots", "controllers", "server", "experiments", "scenes", "laws", "engines")
"""What `idyn list` lists, besides settings."""


def new(parser: ArgumentParser) -> None:
    """Write a configuration for a robot from its URDF or MJCF."""
    parser.add_argument(
        "robot",
        help="path of a URDF or MJCF, example-robot-data:<path below its robots folder>, robot_descriptions:<name>, or a name "
        "of either collection",
    )
    parser.add_argument("--srdf", type=Path, metavar="FILE", help="take the standing pose from this file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: NAME.toml in this folder)")
    parser.add_argument("--stand", action="store_true", help="let a robot with four legs stand instead of trot")
    parser.add_argument("--fixed", action="store_true", help="fix the base of a URDF to the world, also of a robot with legs")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser, "what was found")


def check(parser: ArgumentParser) -> None:
    """Check a configuration, a URDF, or the states of a log."""
    parser.add_argument("what", help="name or path of a configuration, path of a URDF or of a log.mcap")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="check each N-th state of a log (default: 10)")
    parser.add_argument(
        "--samples", type=int, default=60, help="searches per state with more than four contacts (default: %(default)s)"
    )
    parser.add_argument("--fixed", action="store_true", help="treat the base of a URDF as fixed instead of floating")
    parser.add_argument("--hello", action="store_true", help="print, as JSON, hello, stance and contacts of a client")
    add_json(parser, "the findings")


def list_(parser: ArgumentParser) -> None:
    """List robots, laws, engines, experiments, scenes, and all settings with their meaning."""
    parser.add_argument(
        "what", nargs="?", choices=[*LISTS, "settings"], help=f"{', '.join(LISTS)} or settings (default: all names)"
    )
    parser.add_argument("text", nargs="?", default="", help="show only entries that contain this text")
    add_json(parser, "the list")


def doctor(parser: ArgumentParser) -> None:
    """Report what this installation has, and what limits 1 kHz on this machine."""
    parser.add_argument("--ticks", type=int, default=2500, help="ticks of the round-trip test, 0: none (default: %(default)s)")
    add_json(parser, "the facts")


def keys(parser: ArgumentParser) -> None:
    """Create a key pair for a server or a client."""
    parser.add_argument("name", help="name of the files NAME.key and NAME.key_secret")
    parser.add_argument("--out", default="keys", help="folder for the files (default: %(default)s)")
    add_json(parser, "the public key and the files")


def warm_up(parser: ArgumentParser) -> None:
    """Compile all kernels of a server into the cache, for images and CI."""
    parser.add_argument("config", nargs="?", default="quadruped", help="server configuration (default: quadruped)")
    add_json(parser, "the duration")
