"""What belongs to the marker `full`: not what a marker of longer or other work excludes."""

import pytest

OTHERS = {"long", "soak", "bench", "browser"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """A case that is `full` on one axis and `long` on another is `long`."""
    if OTHERS.intersection(mark.name for mark in item.iter_markers()):
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "full"]
