"""Where compiled functions are kept on the disk: a directory for each state of the sources, and those of old ones let go."""

import hashlib
import os
import re
import shutil
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import time

KEPT_S = 30 * 86400.0
"""So long a directory is kept that nobody uses [s]."""

DIGITS = 16
"""Of a digest, in a directory's name."""


def root() -> Path:
    """`NUMBA_CACHE_DIR`, or a directory of ours where the user has such things."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "idyn"


@lru_cache(maxsize=8)
def cache_directory(package: Path) -> Path:
    """That of a package as its sources are now, whether it exists or not. When it does not, those of which nobody has asked for
    `KEPT_S` go."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, package):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    directory = root() / digest.hexdigest()[:DIGITS]
    if directory.exists():
        with suppress(OSError):  # somebody else's, or gone just now
            os.utime(directory)
    else:
        prune(directory.parent)
    return directory


def prune(parent: Path) -> None:
    """Removes what was not used for `KEPT_S` and is certainly ours: directories by the name of a digest with numba's files in
    them, and no others. What cannot be removed stays."""
    with suppress(OSError):
        for directory in parent.iterdir():
            if _is_ours(directory) and time() - directory.stat().st_mtime > KEPT_S:
                shutil.rmtree(directory, ignore_errors=True)


def _is_ours(directory: Path) -> bool:
    if not re.fullmatch(f"[0-9a-f]{{{DIGITS}}}", directory.name) or directory.is_symlink() or not directory.is_dir():
        return False
    files = [path.name for path in directory.rglob("*") if not path.is_dir()]
    return bool(files) and all(re.search(r"\.nb[ci](\.tmp\.|$)", name) for name in files)
