"""Options and markers of all tests."""

import pytest

OTHERS = {"long", "soak", "bench", "browser"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-minutes", type=float, default=30.0, help="duration of the soak test [min] (default: 30)")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A case that is `full` on one axis and `long` on another is `long`."""
    if OTHERS.intersection(mark.name for mark in item.iter_markers()):
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "full"]
