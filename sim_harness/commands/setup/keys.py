"""`idyn keys`: create a key pair for a server or a client."""

import argparse
from pathlib import Path
from typing import Any

from transport.keys import make_keys


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    public_file, secret_file, public = make_keys(Path(options.out), options.name)
    print(f"public key: {public}")
    print(f"{public_file}: to be distributed; {secret_file}: keep it secret, only its owner can read it")
    return {"public_key": public, "public_file": str(public_file), "secret_file": str(secret_file)}, True
