"""The fast set of tests: `pytest` alone runs one case of each property; the marker `full` has the other cases.

`.ci/run` runs both. A test is fast unless it is marked. For one axis of a parametrised test:

    @pytest.mark.parametrize("name", first_is_fast(WALKERS))
    @pytest.mark.parametrize("law", fast(LAWS, "coulomb", "no-slip"))

With several axes a case is fast if it is fast on each of them.
"""

from collections.abc import Iterable
from typing import Any

import pytest

full = pytest.mark.full


def first_is_fast(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Parameters, all but the first `count` marked `full`. A tuple is one case of several parameters."""
    return [value if i < count else _marked(value) for i, value in enumerate(values)]


def fast(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters, all but the chosen ones marked `full`; a case of several parameters is chosen by its first one."""
    values = list(values)
    missing = [each for each in chosen if each not in map(_first, values)]
    assert not missing, f"not among the parameters: {missing}"
    return [value if _first(value) in chosen else _marked(value) for value in values]


def _first(value: Any) -> Any:
    parts = getattr(value, "values", value)
    return parts[0] if isinstance(parts, tuple) else parts


def _marked(value: Any) -> Any:
    if hasattr(value, "marks"):  # a pytest.param
        return pytest.param(*value.values, marks=[*value.marks, full], id=value.id)
    return pytest.param(*value, marks=full) if isinstance(value, tuple) else pytest.param(value, marks=full)
