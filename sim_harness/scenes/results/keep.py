"""Save a run of a scene in a folder (settings, recording, figures, picture) and read it again."""

import json
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError
from idyn.types import Record
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.results.measures import Outcome
from sim_harness.scenes.results.recording import Recording

SETTINGS, ROWS, FIGURES, PICTURE = "scene.json", "recording.npz", "result.json", "picture.png"


class SavedRun(Record, frozen=True):
    """A finished run of a scene."""

    settings: SceneSettings
    recording: Recording
    outcome: Outcome


def save_run(folder: Path, settings: SceneSettings, recording: Recording, outcome: Outcome) -> None:
    """Write a run to a folder, which is created if necessary. Raises ConfigError without the extra `viz`, which draws."""
    from sim_harness.scenes.results.picture import picture  # noqa: PLC0415 - an extra

    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / SETTINGS, settings)
    recording.save(folder / ROWS)
    _write(folder / FIGURES, outcome)
    (folder / PICTURE).write_bytes(picture(settings, recording, outcome))


def read(folder: Path) -> SavedRun:
    """Read a run written by `save_run`. Raises ConfigError for missing or malformed files."""
    try:
        settings = msgspec.convert(_read(folder / SETTINGS), SceneSettings)
        recording = Recording.load(folder / ROWS)
        outcome = msgspec.convert(_read(folder / FIGURES), Outcome)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(str(folder), f"expected {SETTINGS}, {ROWS} and {FIGURES} of a scene ({error})") from error
    return SavedRun(settings=settings, recording=recording, outcome=outcome)


def saved_runs(path: Path) -> list[SavedRun]:
    """Return the run in a folder, or the runs in its subfolders; empty without runs."""
    folders = [path] if (path / ROWS).is_file() else sorted(file.parent for file in path.glob(f"*/{ROWS}"))
    return [read(folder) for folder in folders]


def _write(path: Path, data: msgspec.Struct) -> None:
    """Write a struct as JSON. Non-finite numbers become NaN and Infinity, which the json module can read."""
    path.write_text(json.dumps(msgspec.to_builtins(data), indent=1), encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
