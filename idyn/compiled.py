"""`@compiled`: numba for the inner loops, with a disk cache that cannot go stale.

numba keys a cached kernel by its own source file and never notices that a kernel it calls, in another file, has changed.
So the cache directory carries a digest of all of the package's sources: change any line and every kernel is built anew.
`NUMBA_DISABLE_JIT=1` runs the same functions as plain Python; `NUMBA_CACHE_DIR` moves the cache.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_directory() -> str:
    root = os.environ.get("NUMBA_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"
    return str(Path(root) / _sources_digest())


_DIRECTORY = _cache_directory()


def compiled(function: F) -> F:
    """Compile `function` with numba (no Python objects, GIL released), cached on disk."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _DIRECTORY
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = before
