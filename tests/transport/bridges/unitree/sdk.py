"""Unitree's SDK and simulator, beside the project; tests that need them are skipped where they are not."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[5] / "shared" / "third_party" / "unitree"

needs_unitree = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs Unitree's SDK and simulator beside the project")

if FOLDER.is_dir() and str(FOLDER) not in sys.path:
    sys.path.append(str(FOLDER))


def with_unitree(test: Callable[..., None]) -> Callable[..., None]:
    """A test in real time, with the marker `unitree`."""
    return pytest.mark.unitree(needs_unitree(test))
