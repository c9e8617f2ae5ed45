"""Tables of OpenSim: `.mot` and `.sto` (a time column and named columns) and `.trc` (positions of markers)."""

from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from idyn.errors import InputError
from idyn.types import Array

MAX_BYTES = 512 * 1024 * 1024
"""Length of a file."""

MAX_HEADER = 1000
"""Lines before the columns."""

TRC_HEADER = 5
"""Lines of a `.trc` before its numbers."""


class Table(NamedTuple):
    """A table. time [s], increasing (T); columns: name → values (T); degrees: whether angles are in degrees"""

    time: Array
    columns: dict[str, Array]
    degrees: bool


class Markers(NamedTuple):
    """Markers. time [s] (T); positions: name → in the ground frame [m] (T, 3), NaN where a marker was not seen"""

    time: Array
    positions: dict[str, Array]


def read_table(path: str | Path) -> Table:
    """Return the table of a `.mot` or `.sto`. Raises InputError, with the line, for a file that is none."""
    lines = _lines(path)
    end = next((k for k, line in enumerate(lines[:MAX_HEADER]) if line.strip().lower() == "endheader"), None)
    if end is None:
        raise InputError(str(path), f"expected a line 'endheader' among the first {MAX_HEADER}")
    header = {key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines[:end])}
    if end + 1 >= len(lines):
        _fail(path, end + 1, "expected the names of the columns below 'endheader'")
    names = lines[end + 1].split()
    _check_names(path, end + 2, names)
    rows = _rows(path, lines, end + 2, len(names))
    for key, count in (("nrows", len(rows)), ("ncolumns", len(names))):
        if key in header and header[key] != str(count):
            raise InputError(str(path), f"{key}: the header promises {header[key][:20]}, the table has {count}")
    columns = dict(zip(names[1:], rows.T[1:], strict=True))
    return Table(_increasing(path, rows[:, 0]), columns, header.get("indegrees", "no").lower() == "yes")


def write_table(path: str | Path, name: str, table: Table) -> None:
    """Write a `.mot` or `.sto` that OpenSim reads. name: first line of the file"""
    rows = np.column_stack([table.time, *table.columns.values()])
    head = [name, "version=1", f"nRows={len(rows)}", f"nColumns={rows.shape[1]}"]
    head += [f"inDegrees={'yes' if table.degrees else 'no'}", "endheader", "\t".join(["time", *table.columns])]
    lines = ["\t".join(f"{value:.10g}" for value in row) for row in rows]
    Path(path).write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def read_markers(path: str | Path) -> Markers:
    """Return the markers of a `.trc`. Raises InputError, with the line, for a file that is none."""
    lines = _lines(path)
    if len(lines) <= TRC_HEADER or not lines[0].startswith("PathFileType"):
        _fail(path, 1, "expected the header of a .trc, of five lines that begin with 'PathFileType'")
    settings = dict(zip(lines[1].split(), lines[2].split(), strict=False))
    units = {"m": 1.0, "mm": 1e-3}
    if settings.get("Units") not in units:
        _fail(path, 3, f"expected Units m or mm, got '{settings.get('Units', '')[:20]}'")
    names = [name for name in lines[3].rstrip().split("\t")[2:] if name.strip()]
    _check_names(path, 4, ["time", *names])
    width = 2 + 3 * len(names)
    rows = _rows(path, [_padded(line, width) for line in lines], TRC_HEADER, width, finite=False)
    positions = rows[:, 2:].reshape(len(rows), len(names), 3) * units[settings["Units"]]
    return Markers(_increasing(path, rows[:, 1]), {name: positions[:, k] for k, name in enumerate(names)})


def _padded(line: str, width: int) -> str:
    """Return a line of a `.trc` with `nan` where a marker is missing."""
    cells = line.rstrip("\r\n").split("\t")
    if not line.strip():
        return ""
    return " ".join((cell.strip() or "nan") for cell in (cells + [""] * width)[:width])


def _lines(path: str | Path) -> list[str]:
    """Return the lines of a text file of bounded length."""
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise InputError(str(path), f"expected at most {MAX_BYTES} bytes, got {size}")
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read ({error})") from error


def _rows(path: str | Path, lines: list[str], first: int, width: int, finite: bool = True) -> Array:
    """Return the numbers of all lines from `first` that are not empty (T, width)."""
    rows = []
    for k, line in enumerate(lines[first:], start=first):
        words = line.split()
        if not words:
            continue
        if len(words) != width:
            _fail(path, k + 1, f"expected {width} numbers, one for each column, got {len(words)}")
        try:
            row = [float(word) for word in words]
        except ValueError:
            _fail(path, k + 1, f"expected numbers, got '{line.strip()[:60]}'")
        if finite and not np.isfinite(row).all():
            _fail(path, k + 1, "expected finite numbers")
        rows.append(row)
    if len(rows) < 2:
        raise InputError(str(path), f"expected at least two rows of numbers, got {len(rows)}")
    return np.array(rows)


def _check_names(path: str | Path, line: int, names: list[str]) -> None:
    if not names or names[0].lower() != "time":
        _fail(path, line, f"expected 'time' as the first column, got '{(names or [''])[0][:40]}'")
    double = [name for name in names if names.count(name) > 1]
    if double:
        _fail(path, line, f"two columns are named '{double[0][:60]}'")


def _increasing(path: str | Path, time: Array) -> Array:
    if not np.isfinite(time).all():
        raise InputError(f"{path}: time", "expected finite numbers")
    wrong = np.flatnonzero(np.diff(time) <= 0.0)
    if len(wrong):
        raise InputError(f"{path}: time", f"expected increasing times, got {time[wrong[0]]:g} s, then {time[wrong[0] + 1]:g} s")
    return time


def _fail(path: str | Path, line: int, message: str) -> NoReturn:
    raise InputError(f"{path}, line {line}", message)
