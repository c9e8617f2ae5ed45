"""The fast set of tests: `pytest` alone runs one case of each property; the marker `full` has the other cases.

`.ci/run` runs both. A test is fast unless it is marked. For one axis of a parametrised test:

    @pytest.mark.parametrize("name", first_is_fast(WALKERS))
    @pytest.mark.parametrize("law", fast(LAWS, "coulomb", "no-slip"))
    @pytest.mark.parametrize("fault", fast_if(FAULTS, lambda fault: fault.name in FAST))

With several axes a case is fast if it is fast on each of them. A tuple is one case of several parameters.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

full = pytest.mark.full


def fast_if(values: Iterable[Any], condition: Callable[[Any], bool]) -> list[Any]:
    """Parameters, marked `full` where the condition does not hold."""
    return [value if condition(value) else _marked(value) for value in values]


def first_is_fast(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Parameters, all but the first `count` marked `full`."""
    return [value if i < count else _marked(value) for i, value in enumerate(values)]


def fast(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters, all but the chosen ones marked `full`; a tuple is chosen by its first element."""
    values = list(values)
    missing = [each for each in chosen if each not in map(_first, values)]
    assert not missing, f"not among the parameters: {missing}"
    return fast_if(values, lambda value: _first(value) in chosen)


def _first(value: Any) -> Any:
    return value[0] if type(value) is tuple else value


def _marked(value: Any) -> Any:
    return pytest.param(*value, marks=full) if type(value) is tuple else pytest.param(value, marks=full)
