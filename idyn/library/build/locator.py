"""Where numba keeps compiled kernels: one folder for each state of the sources that a kernel may use."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from idyn.library.build.roster import imported
from idyn.library.digest import code_digest


@cache
def _digest(path: Path) -> str:
    """Return the digest of a module's kernels and constants and of those that it imports, directly or not."""
    reached, waiting = {path}, [path]
    while waiting:
        new = imported(waiting.pop()) - reached
        reached |= new
        waiting += new
    return hashlib.sha256("".join(code_digest(each.read_text("utf-8")) for each in sorted(reached)).encode()).hexdigest()[:16]


class Locator:
    """Cache locator as numba documents it: `NUMBA_CACHE_LOCATOR_CLASSES`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        root = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"
        self._stamp = _digest(Path(function.__code__.co_filename))
        self._folder = Path(root) / f"{function.__module__}-{self._stamp}"

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> "Locator":
        return cls(function)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return nothing more: a module has one kernel of a name."""
        return ""
