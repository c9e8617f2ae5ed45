"""`idyn new`: write a configuration for a robot from its URDF or MJCF."""

import argparse
from pathlib import Path
from typing import Any

from idyn.errors import ConfigError
from sim_harness.commands.figures import add_json
from sim_harness.new.draft import draft
from sim_harness.new.source import find_model, poses_of


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "robot",
        help="path of a URDF or MJCF, example-robot-data:<path below its robots folder>, robot_descriptions:<name>, or a name "
        "of either collection",
    )
    parser.add_argument("--srdf", type=Path, metavar="FILE", help="take the standing pose from this file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: NAME.toml in this folder)")
    parser.add_argument("--stand", action="store_true", help="let a robot with four legs stand instead of trot")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser, "what was found")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    model = find_model(options.robot, Path.cwd())
    target = options.out or Path(f"{model.path.stem}.toml")
    if target.exists() and not options.force:
        raise ConfigError(str(target), "the file exists; --force replaces it")
    drafted = draft(model, poses_of(model, options.srdf), stand=options.stand)
    target.write_text(drafted.text, encoding="utf-8")
    for line in drafted.found:
        print(line)
    print(f"{target}: try `idyn simulate {target}`")
    return {"file": str(target), "legs": drafted.legs, "found": drafted.found}, True
