"""`idyn keys`: create a key pair for a server or a client."""

import argparse
from pathlib import Path
from typing import Any

from sim_harness.commands.figures import add_json
from transport.keys import make_keys


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="name of the files NAME.key and NAME.key_secret")
    parser.add_argument("--out", default="keys", help="folder for the files (default: %(default)s)")
    add_json(parser, "the public key and the files")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    public_file, secret_file, public = make_keys(Path(options.out), options.name)
    print(f"public key: {public}")
    print(f"{public_file}: to be distributed; {secret_file}: keep it secret, only its owner can read it")
    return {"public_key": public, "public_file": str(public_file), "secret_file": str(secret_file)}, True
