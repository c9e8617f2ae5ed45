"""The options of the commands around a running server."""

from argparse import ArgumentParser
from pathlib import Path
from typing import get_args

from controllers.config.loading import Pattern
from sim_harness.commands.shared_options import add_addresses, add_endpoint, add_json, add_keys


def serve(parser: ArgumentParser) -> None:
    """Run the torque server until it is stopped."""
    parser.add_argument("config", help="name or path of a server configuration")
    add_addresses(parser)
    parser.add_argument("--law", help="contact law (default: the configuration's)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="record all messages in this MCAP file")


def drive(parser: ArgumentParser) -> None:
    """Steer the robot of a running server from the keyboard or a gamepad."""
    add_endpoint(parser)
    parser.add_argument("--name", default="drive", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--gamepad", action="store_true", help="steer by a gamepad (extra 'gamepad')")
    add_keys(parser, "of the role 'plan'")


def plan(parser: ArgumentParser) -> None:
    """Plan the gait of the robot of a running server by model-predictive control."""
    add_endpoint(parser)
    parser.add_argument("--config", metavar="FILE.toml", help="settings of the planner (default: a trot, `idyn list settings`)")
    parser.add_argument("--velocity", nargs=3, type=float, metavar=("F", "L", "T"), help="forward, left [m/s], turn [rad/s]")
    help_text = "order of the steps (default: that of the settings)"
    parser.add_argument("--pattern", choices=get_args(Pattern), help=help_text)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="on the robot's clock (default: until Ctrl-C)")
    parser.add_argument("--name", default="plan", help="name in the server's setting `planners` (default: %(default)s)")
    add_keys(parser, "of the role 'plan'")
    add_json(parser, "the figures")


def top(parser: ArgumentParser) -> None:
    """Show the work of a running server, once per second."""
    add_endpoint(parser)
    parser.add_argument("--once", action="store_true", help="print one screen, of one second, and end")
    add_keys(parser, "of the role 'watch'")


def conform(parser: ArgumentParser) -> None:
    """Try a foreign server or client against the rules of the wire protocol."""
    parser.add_argument("endpoint", nargs="?", help="address of the server to try")
    parser.add_argument(
        "--robot",
        metavar="CMD",
        help="command of the client to try; {} in it, and IDYN_ENDPOINT in its environment, are the address of its server",
    )
    parser.add_argument("--config", default="quadruped", help="server configuration of the robot (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="try only rules that contain this text")
    add_json(parser, "the outcomes")
