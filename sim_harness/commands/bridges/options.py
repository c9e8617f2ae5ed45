"""The options of `idyn bridge`."""

from argparse import ArgumentParser
from pathlib import Path

from sim_harness.commands.shared_options import add_endpoint, add_json, add_keys


def bridge(parser: ArgumentParser) -> None:
    """Connect a robot by its own interface, or a server with ROS 2."""
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    _unitree(kinds.add_parser("unitree", help="Unitree's low-level interface over DDS"))
    _ros2(kinds.add_parser("ros2", help="topics of ROS 2 over DDS, without ROS"))


def _unitree(parser: ArgumentParser) -> None:
    parser.add_argument("--robot", required=True, choices=["go2", "g1"], help="the robot")
    parser.add_argument("--domain", type=int, default=0, help="DDS domain: 0 on a robot (default), 1 in Unitree's simulator")
    parser.add_argument("--interface", default="lo", help="network interface (default: %(default)s, this machine only)")
    parser.add_argument("--script", type=Path, metavar="FILE", help="what to do, one step per line (default: stand 10, lie)")
    parser.add_argument("--release", action="store_true", help="end the robot's own controller first; it must lie or hang")
    parser.add_argument("--connect", metavar="ENDPOINT", help="server that answers after standing up (default: none)")
    parser.add_argument("--dry-run", action="store_true", help="show the joints and the first goal; send nothing")
    parser.add_argument("--log", type=Path, metavar="FILE.mcap", help="log of the robot's messages, byte for byte")
    parser.add_argument("--yes", action="store_true", help="confirm the checklist")
    add_json(parser, "the figures")
    parser.set_defaults(module="sim_harness.commands.bridges.unitree")


def _ros2(parser: ArgumentParser) -> None:
    add_endpoint(parser)
    parser.add_argument("--robot", metavar="NAME", help="name or path of the robot (default: the one the server names)")
    parser.add_argument("--name", default="ros2", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--read-only", action="store_true", help="publish only; take no commands")
    parser.add_argument("--rate", type=float, default=100.0, help="states per second that are published (default: 100)")
    parser.add_argument("--domain", type=int, help="DDS domain (default: ROS_DOMAIN_ID, or 0)")
    parser.add_argument("--interface", default="lo", help="network interface (default: %(default)s, this machine only)")
    parser.add_argument("--yes", action="store_true", help="confirm that others on the interface may command the robot")
    add_keys(parser, "of the role 'plan', or 'watch' to publish only")
    add_json(parser, "the figures")
    parser.set_defaults(module="sim_harness.commands.bridges.ros2")
