"""Files of tests, and a disk that is full for one file of this process."""

import os
from pathlib import Path


def fill_disk(path: Path) -> None:
    """Let all further writes to the open file `path` fail with ENOSPC."""
    full = os.open("/dev/full", os.O_WRONLY)
    (found,) = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath(f"/proc/self/fd/{fd}") == str(path.resolve())]
    os.dup2(full, found)
    os.close(full)


def written(path: Path, text: str) -> Path:
    """The file, with this text in it."""
    path.write_text(text, encoding="utf-8")
    return path
