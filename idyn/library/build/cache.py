"""Where numba keeps compiled kernels: one folder for each state of the sources that a kernel may use."""

import ast
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator

from idyn.library.digest import code_digest

ROOT, PACKAGES = Path(__file__).parents[3], ("idyn", "controllers", "transport", "sim_harness")


@cache
def imported(path: Path) -> set[Path]:
    """Return the files of the project that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
            place = ROOT.joinpath(*node.module.split("."))
            found |= {each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()}
    return found


@cache
def _digest(path: Path) -> str:
    """Return the digest of a module's kernels and constants and of those that it imports, directly or not."""
    reached, waiting = {path}, [path]
    while waiting:
        new = imported(waiting.pop()) - reached
        reached |= new
        waiting += new
    return hashlib.sha256("".join(_code(each) for each in sorted(reached)).encode()).hexdigest()[:16]


@cache
def _code(path: Path) -> str:
    return code_digest(path.read_text("utf-8"))


class _Locator(InTreeCacheLocator):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any], _file: str) -> None:
        root = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"
        self._stamp = _digest(Path(function.__code__.co_filename))
        self._cache_path = str(Path(root) / f"{function.__module__}-{self._stamp}")

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_Locator":
        return cls(function, file)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return nothing more: a module has one kernel of a name."""
        return ""


class _Results(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class Kept(FunctionCache):  # type: ignore[misc]
    """numba's cache of a kernel, which several processes may write.

    Each gives its files names of its own: by numba's two processes at once take the same name for different argument types, and
    later ones call machine code of other types.
    """

    _impl_class = _Results

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._data_name_pattern = f"{self._impl.filename_base}.{uuid4().hex}.{{number:d}}.nbc"
