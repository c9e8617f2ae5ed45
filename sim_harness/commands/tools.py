"""`idyn keys` and `completion`: key pairs, and completion in a shell."""

import argparse
from pathlib import Path
from typing import Any

import shtab

from sim_harness.commands.main import build_parser
from transport.keys import make_keys


def run_keys(options: argparse.Namespace) -> tuple[Any, bool]:
    public_file, secret_file, public = make_keys(Path(options.out), options.name)
    print(f"public key: {public}")
    print(f"{public_file}: to be distributed; {secret_file}: keep it secret, only its owner can read it")
    return {"public_key": public, "public_file": str(public_file), "secret_file": str(secret_file)}, True


def run_completion(options: argparse.Namespace) -> tuple[Any, bool]:
    print(shtab.complete(build_parser(), options.shell))
    return None, True
