"""`idyn judge`: judge steps of any simulator, logs, or engines on scenes.

The verdict names what a solution violates and by how much, its energy, and shows a certified answer beside it.
"""

import argparse
import json
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import ConfigError, InputError
from sim_harness.commands.output import publish, run_bar
from sim_harness.judge.fclib import SUFFIXES, read_fclib
from sim_harness.judge.logs import steps_of_log
from sim_harness.judge.measured import Block, Sample, explained_step, read_tensor, samples_of
from sim_harness.judge.report import report_of
from sim_harness.judge.step import Step, read_steps
from sim_harness.judge.tosses import EDGE, MASS, RATE, load_tosses, toss_of_tensor
from sim_harness.judge.verdict import answer_to, judge
from sim_harness.scenes.scene_settings import is_scene


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.every < 1:
        raise ConfigError("--every", f"expected ≥ 1, got {options.every}")
    if not options.tolerance > 0.0:
        raise ConfigError("--tolerance", f"expected > 0 m/s, got {options.tolerance}")
    if all(what == "engines" or (not Path(what).suffix and is_scene(what)) for what in options.what):
        return _scenes(options)
    verdicts = [judge(step, options.tolerance) for what in options.what for step in steps_of(Path(what), options.every)]
    answers = [answer_to(verdict.step, options.law, options.tolerance) for verdict in verdicts]
    publish(report_of(", ".join(options.what), verdicts, answers, options.law), options.out)
    found = [
        {"step": v.step.name, "violations": [str(each) for each in v.violations], "laws": v.laws, "energy_J": v.energy.contacts}
        for v in verdicts
    ]
    return found, all(verdict.good for verdict in verdicts)


def steps_of(path: Path, every: int) -> Iterable[Step]:
    """Return the steps of a file by its suffix and contents. Raises InputError."""
    if not path.is_file():
        raise InputError(
            str(path),
            "expected a file of steps (.npz, .json), an FCLib problem (.hdf5), tosses (.npz, .pt), a log (.mcap) or scenes",
        )
    if path.suffix == ".mcap":
        return steps_of_log(path, every)
    if path.suffix in SUFFIXES:
        return [read_fclib(path)]
    if path.suffix == ".pt" or (path.suffix == ".npz" and _has_tosses(path)):
        return map(explained_step, islice(_toss_samples(path), 0, None, every))
    if path.suffix == ".json" and (fields := _mjcf_fields(path)) is not None:
        from sim_harness.judge.mjcf import read_mjcf  # noqa: PLC0415 - needs the extra mujoco

        return read_mjcf(path, fields)[::every]
    return read_steps(path)[::every]


def _has_tosses(path: Path) -> bool:
    """Return whether an npz file has measured tosses."""
    with suppress(OSError, EOFError, ValueError, zipfile.BadZipFile), np.load(path, allow_pickle=False) as data:
        return "quaternion_wxyz" in data.files
    return False


def _toss_samples(path: Path) -> Iterable[Sample]:
    """Yield the steps on the floor of measured tosses: ContactNets' tensors (.pt), or the layout of `cube-tosses.npz`."""
    for i, toss in enumerate([toss_of_tensor(path, read_tensor(path))] if path.suffix == ".pt" else load_tosses(path)):
        name = path.stem if path.suffix == ".pt" else f"{path.stem}[{i}]"
        yield from samples_of(name, toss, Block(edge=EDGE, mass=MASS), 1.0 / RATE)


def _mjcf_fields(path: Path) -> dict[str, Any] | None:
    """Return the contents of a JSON file that names an MJCF, otherwise None."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "mjcf" in found else None


def _scenes(options: argparse.Namespace) -> tuple[Any, bool]:
    from sim_harness.judge.scenes import judged_scenes, scenes_report  # noqa: PLC0415 - loads all engines

    with run_bar() as progress:
        found = judged_scenes(options.what, options.seconds, options.tolerance, progress)
    publish(scenes_report(found, options.seconds), options.out)
    return [{"scene": each.scene, "engine": each.engine, "kinds": dict(each.worst)} for each in found], True
