"""`@compiled`: numba for the inner loops, with a disk cache that cannot go stale.

numba keys a cached kernel by its own source file and never notices that a kernel it calls, in another file, has changed.
So the cache directory carries a digest of all sources of this package and of the package that the kernel belongs to: change
any line and the kernels are built anew.
`NUMBA_DISABLE_JIT=1` runs the same functions as plain Python; `NUMBA_CACHE_DIR` moves the cache.
"""

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


@lru_cache(maxsize=8)
def _cache_directory(package: Path) -> str:
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, package):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"
    return str(Path(root) / digest.hexdigest()[:16])


def _package(function: Callable[..., Any]) -> Path:
    """Folder of the top-level package that a function is defined in."""
    path = Path(function.__code__.co_filename)
    return path.parents[function.__module__.count(".") - 1] if "." in function.__module__ else path.parent


def compiled(function: F) -> F:
    """Compile `function` with numba (no Python objects, GIL released), cached on disk."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _cache_directory(_package(function))
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = before
