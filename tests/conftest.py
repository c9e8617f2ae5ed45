"""Options and markers of all tests; what makes all of them faster."""

import gc
import os

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: each core has its process already
OTHERS = {"long", "soak", "bench", "browser", "clients", "unitree", "realtime"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-minutes", type=float, default=30.0, help="duration of the soak test [min] (default: 30)")
    parser.addoption("--crocoddyl", metavar="PYTHON", help="interpreter of an environment with crocoddyl, to plan a jump anew")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process for each core when a whole set runs; selected files, tests and what prints or measures run in one process."""
    selected = config.args != config.getini("testpaths") or config.option.keyword or config.option.capture == "no"
    return 0 if selected or config.option.markexpr in OTHERS else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """A case that is `full` on one axis and `long` on another is `long`."""
    if OTHERS.intersection(mark.name for mark in item.iter_markers()):
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "full"]


def pytest_collection_finish() -> None:
    """Modules and cases live to the end: collections of garbage, of which each served loop begins with one, pass them over."""
    gc.freeze()
    gc.unfreeze = lambda: None  # what each served loop ends with
