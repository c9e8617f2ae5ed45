"""Tables of tests: all rows are tried in one test, which names each row that fails.

    @each_row("angle, expected", [(0.0, 1.0), (np.pi, -1.0)])
    def test_cosines(angle, expected): ...

For rows that cost little; `pytest.mark.parametrize` makes cases, which run in parallel, can be marked and chosen by name.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test that is called for each of the values, all with the same fixtures.

    names: of its parameters, separated by commas; with several of them a value is a tuple
    """
    parameters, values = [name.strip() for name in names.split(",")], list(values)
    assert not any(hasattr(value, "marks") for value in values), f"rows of {names} cannot be marked: use parametrize"
    table = [dict(zip(parameters, value if len(parameters) > 1 else (value,), strict=True)) for value in values]
    assert table, f"no rows of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_rows(**fixtures: Any) -> None:
            failed, last = [], None
            for k, row in enumerate(table):
                try:
                    test(**row, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    shown = ", ".join(f"{name} = {_shown(value)}" for name, value in row.items())
                    failed.append(f"row {k} ({shown}): {type(error).__name__}: {error}")
                    last = error
            if failed:
                raise AssertionError(f"{len(failed)} of {len(table)} rows fail\n" + "\n".join(failed)) from last

        given = inspect.signature(test)
        left = [parameter for name, parameter in given.parameters.items() if name not in parameters]
        all_rows.__signature__ = given.replace(parameters=left)  # type: ignore[attr-defined]
        return all_rows

    return decorate


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or reprlib.repr(value)
