"""Options that several commands have."""

from argparse import ArgumentParser
from pathlib import Path

EXECUTORS = ("processes", "dask", "ray")
"""Libraries that distribute the runs of a comparison, and the replay of many logs."""


def add_json(parser: ArgumentParser, what: str) -> None:
    """Add `--json`. what: is written"""
    parser.add_argument(
        "--json", metavar="FILE", help=f"write {what} as JSON to FILE; '-': to stdout, with all other output on stderr"
    )


def add_addresses(parser: ArgumentParser) -> None:
    """Add the addresses that a server binds."""
    parser.add_argument("--endpoint", help="address to bind, ipc://… or tcp://… (default: the configuration's)")
    parser.add_argument("--robot-endpoint", help="address of the robot's own (default: the configuration's, or none)")


def add_endpoint(parser: ArgumentParser) -> None:
    """Add the address of a server."""
    parser.add_argument("endpoint", nargs="?", help="address of the server (default: the socket in the user's runtime folder)")


def add_keys(parser: ArgumentParser, whose: str) -> None:
    """Add the keys of a client. whose: the role that its secret key has"""
    parser.add_argument("--secret", type=Path, metavar="FILE", help=f"secret key {whose}, for a server with [curve]")
    parser.add_argument("--server-key", metavar="KEY", help="public key of the server")
