"""`idyn view`: a run in three dimensions, as a page for the browser."""

import argparse
from pathlib import Path
from typing import Any

from idyn.errors import ConfigError
from sim_harness.commands.output import open_browser
from sim_harness.scenes.results.keep import kept_in
from sim_harness.view.bodies import scene_page
from sim_harness.view.page import page_of
from sim_harness.view.runs import read_scenes


def add_to(subparsers: Any) -> None:
    parser = subparsers.add_parser("view", help="show a run in three dimensions: a page that needs nothing but a browser")
    parser.add_argument("what", type=Path, metavar="RUN|LOG", help="folder of a run, folder of such folders, or a log.mcap")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page (default: view.html in or beside it)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> tuple[Any, bool]:
    source: Path = options.what
    target: Path = options.out or (source if source.is_dir() else source.parent) / "view.html"
    if target.is_dir() or not target.parent.is_dir():
        raise ConfigError("--out", f"expected a file in a folder that exists, got {target}")
    name, kept = source.resolve().stem, kept_in(source)
    if kept:
        page, count = scene_page(f"{name}: {kept[0].settings.about}", kept), len(kept)
    else:
        scenes = read_scenes(source)
        page, count = page_of(f"{name}: {scenes[0].controller.robot.name}", scenes), len(scenes)
    target.write_text(page, encoding="utf-8")
    print(f"{target}: {count} {'run' if count == 1 else 'runs'}, {target.stat().st_size / 1e6:.1f} MB")
    if options.open:
        open_browser(target.resolve().as_uri())
    return None, True
