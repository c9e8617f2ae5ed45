"""Measured data beside the project: `../shared/data`, or where `IDYN_DATA` points."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("IDYN_DATA", Path(__file__).resolve().parents[2] / "shared/data"))


def measured(name: str) -> Path:
    """A file or folder of the measured data; the test is skipped where it is not."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the measured data are not at {DATA} (set IDYN_DATA)")
    return path
