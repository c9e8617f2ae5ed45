"""`idyn new`: write a configuration for a robot from its URDF or MJCF."""

import argparse
from pathlib import Path
from typing import Any

from idyn.errors import ConfigError
from sim_harness.new.draft import draft
from sim_harness.new.source import draft_name, find_model, poses_of


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    model = find_model(options.robot, Path.cwd())
    target = options.out or Path(draft_name(options.robot, model))
    if target.exists() and not options.force:
        raise ConfigError(str(target), "the file exists; --force replaces it")
    drafted = draft(model, poses_of(model, options.srdf), stand=options.stand, fixed=options.fixed)
    target.write_text(drafted.text, encoding="utf-8")
    for line in drafted.found + drafted.warnings:
        print(line)
    print(f"{target}: try `idyn simulate {target}`")
    return {"file": str(target), "legs": drafted.legs, "found": drafted.found, "warnings": drafted.warnings}, True
