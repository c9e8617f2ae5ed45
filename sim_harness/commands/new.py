"""`idyn new`: write a configuration for a robot from its URDF."""

import argparse
from pathlib import Path
from typing import Any

from controllers.robot.load import urdf_path
from idyn.errors import ConfigError
from sim_harness.commands.figures import add_json
from sim_harness.new.draft import draft


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("urdf", help="path of a URDF, or example-robot-data:<path below its robots folder>")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: NAME.toml in this folder)")
    parser.add_argument("--stand", action="store_true", help="let a robot with four legs stand instead of trot")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser, "what was found")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    path = urdf_path(options.urdf, Path.cwd())
    target = options.out or Path(f"{path.stem}.toml")
    if target.exists() and not options.force:
        raise ConfigError(str(target), "the file exists; --force replaces it")
    shared = options.urdf.startswith("example-robot-data:")
    drafted = draft(path, options.urdf if shared else str(path.resolve()), stand=options.stand)
    target.write_text(drafted.text, encoding="utf-8")
    for line in drafted.found:
        print(line)
    print(f"{target}: try `idyn simulate {target}`")
    return {"file": str(target), "legs": drafted.legs, "found": drafted.found}, True
