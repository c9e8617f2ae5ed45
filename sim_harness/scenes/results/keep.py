"""What a run of a scene leaves in its folder: settings, rows, figures and a picture; and how it is read again."""

import json
from pathlib import Path
from typing import Any

import msgspec

from idyn.errors import ConfigError
from idyn.types import Record
from sim_harness.scenes.bodies.settings import SceneSettings
from sim_harness.scenes.results.measures import Outcome
from sim_harness.scenes.results.picture import picture
from sim_harness.scenes.results.recording import Recording

SETTINGS, ROWS, FIGURES, PICTURE = "scene.json", "recording.npz", "result.json", "picture.png"


class Kept(Record, frozen=True):
    """A run that is over."""

    settings: SceneSettings
    recording: Recording
    outcome: Outcome


def keep(folder: Path, settings: SceneSettings, recording: Recording, outcome: Outcome) -> None:
    """Write all of it into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / SETTINGS, settings)
    recording.save(folder / ROWS)
    _write(folder / FIGURES, outcome)
    (folder / PICTURE).write_bytes(picture(settings, recording, outcome))


def read(folder: Path) -> Kept:
    """What `keep` wrote. Raises ConfigError."""
    try:
        settings = msgspec.convert(_read(folder / SETTINGS), SceneSettings)
        recording = Recording.load(folder / ROWS)
        outcome = msgspec.convert(_read(folder / FIGURES), Outcome)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(str(folder), f"expected {SETTINGS}, {ROWS} and {FIGURES} of a scene ({error})") from error
    return Kept(settings=settings, recording=recording, outcome=outcome)


def kept_in(path: Path) -> list[Kept]:
    """The run in a folder, or those in its folders; none where there are no scenes."""
    folders = [path] if (path / ROWS).is_file() else sorted(file.parent for file in path.glob(f"*/{ROWS}"))
    return [read(folder) for folder in folders]


def _write(path: Path, data: msgspec.Struct) -> None:
    """Non-finite numbers are written NaN and Infinity, which JSON of the standard library reads again."""
    path.write_text(json.dumps(msgspec.to_builtins(data), indent=1), encoding="utf-8")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
