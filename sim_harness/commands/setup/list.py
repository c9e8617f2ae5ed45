"""`idyn list`: what there is to name in a command or a configuration, and all settings, from the code itself."""

import argparse
import shutil
import textwrap
from collections.abc import Callable
from typing import Any, get_args

from controllers.config.listing import settings_of
from controllers.config.loading import files
from controllers.config.tables import kind_of
from controllers.planners.mpc.settings import MpcSettings
from idyn.laws import LAWS
from sim_harness.commands.setup.check import FILES
from sim_harness.scenes.scene_settings import is_scene
from sim_harness.world.worlds import AnyEngine

WIDTH = 100
"""Most columns of a table."""


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    if options.what == "settings":
        return _settings(options.text)
    shown = {name: LISTS[name]() for name in ([options.what] if options.what else LISTS)}
    shown = {name: {key: text for key, text in rows.items() if options.text in f"{key} {text}"} for name, rows in shown.items()}
    for name, rows in shown.items():
        print(f"{name}:")
        _print_rows(rows)
    if options.what is None:
        print("`idyn list settings TEXT` explains settings")
    return shown, any(shown.values())


def _print_rows(rows: dict[str, str]) -> None:
    """Print names with their explanations, wrapped to the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDTH)
    column = max(map(len, rows), default=0) + 4
    for name, text in rows.items():
        lines = textwrap.wrap(text, width - column) or [""]
        print(f"  {name.ljust(column - 2)}{lines[0]}")
        for line in lines[1:]:
            print(" " * column + line)


def _settings(text: str) -> tuple[Any, bool]:
    """Print the settings whose path or meaning contains the text."""
    width = min(shutil.get_terminal_size().columns, WIDTH)
    rows = []
    for folder, kinds in (FILES | {"planners": (MpcSettings,)}).items():
        for struct in kinds:
            for setting in settings_of(struct):
                if text in setting.path or text in setting.meaning:
                    rows.append({"file": folder, **setting._asdict()})
    last = ""
    for row in rows:
        if row["file"] != last:
            last = row["file"]
            print(f"[{last}]")
        print(f"  {row['path']} = {row['default']}    ({row['type']})")
        for line in textwrap.wrap(row["meaning"], width - 6):
            print(f"      {line}")
    print(f"{len(rows)} settings")
    return rows, bool(rows)


def _configurations(folder: str, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    """Return the shipped configurations of a folder with the comment at their beginning."""
    return {name: _comment(path.read_text(encoding="utf-8")) for name, path in files(folder).items() if wanted(name)}


def _comment(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# "))
    return " ".join(lines)


def _kinds(family: dict[str, type]) -> dict[str, str]:
    """Return the first sentence of the documentation of each kind of settings."""
    return {name: " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split()) for name, kind in family.items()}


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "robots": lambda: _configurations("robots"),
    "controllers": lambda: _configurations("controllers"),
    "server": lambda: _configurations("server"),
    "experiments": lambda: _configurations("experiments", lambda name: not is_scene(name)),
    "scenes": lambda: _configurations("experiments", is_scene),
    "laws": lambda: _kinds(LAWS),
    "engines": lambda: _kinds({str(kind_of(engine)): engine for engine in get_args(AnyEngine)}),
}
