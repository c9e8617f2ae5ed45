"""The fast set of tests: `pytest` alone runs one case of each property; the marker `full` has the other cases.

`.ci/run` runs both. A test is fast unless it is marked. For one axis of a parametrised test:

    @pytest.mark.parametrize("name", first_is_fast(WALKERS))
    @pytest.mark.parametrize("law", fast(LAWS, "coulomb", "no-slip"))
    @pytest.mark.parametrize("fault", fast_if(FAULTS, lambda fault: fault.name in FAST))

With several axes a case is fast if it is fast on each of them. A tuple is one case of several parameters.

Where the rows of a table take milliseconds, they are one case:

    @every("engine", ENGINES)
    @every_row(("hyqq", "nearest: hyq"), ("missing.urdf", "no such file"))
    def test_a_wrong_word_is_named(word, message, engine): ...

Rows that are marked, as by `first_is_fast`, are a case of their own.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
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


def shortest(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters of tests that take half a minute each, all but the chosen ones marked `long`."""
    values = list(values)
    assert set(chosen) <= set(values), f"not among the parameters: {set(chosen) - set(values)}"
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.long) for value in values]


def _first(value: Any) -> Any:
    return value[0] if type(value) is tuple else value


def _marked(value: Any) -> Any:
    return pytest.param(*value, marks=full) if type(value) is tuple else pytest.param(value, marks=full)


def every(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with all rows of a table in one case. The failure names each row that failed.

    Every row has a `tmp_path` and a `monkeypatch` of its own, and nothing logged or printed before; the rows share all other
    fixtures. Rows that may be skipped alone are cases.
    """
    named, alone = ((names,), True) if isinstance(names, str) else (names, False)
    table = [(row.values, True) if hasattr(row, "marks") else ((row,) if alone else row, False) for row in rows]
    assert table, f"no rows of {names}"
    marked = f"further_{named[0]}"  # the parameter that tells the case of the marked rows from the other one

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            further = fixtures.pop(marked, None)
            chosen = [row for row, is_marked in table if further in (None, is_marked)]
            for k, row in enumerate(chosen):
                values = dict(zip(named, row, strict=True))
                try:
                    with ExitStack() as stack:
                        test(**(fixtures | _own(fixtures, k, stack)), **values)
                except (Exception, SystemExit, BaseExceptionGroup, pytest.fail.Exception) as error:
                    failed[f"{k}: {values}"] = error
            if failed:
                which = "\n".join([f"{len(failed)} of {len(chosen)} rows failed", *failed])
                raise BaseExceptionGroup(which, list(failed.values()))

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in named]
        if any(is_marked for _, is_marked in table):
            others.append(inspect.Parameter(marked, inspect.Parameter.KEYWORD_ONLY))
            run = pytest.mark.parametrize(marked, first_is_fast([False, True]), ids=["fast", "full"])(run)
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def every_row(*table: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `every`, for rows of the test's first parameters: as many as a row has."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        names = tuple(inspect.signature(test).parameters)[: len(table[0]) if type(table[0]) is tuple else 1]
        return every(names if len(names) > 1 else names[0], table)(test)

    return decorate


def _own(fixtures: dict[str, Any], row: int, stack: ExitStack) -> dict[str, Any]:
    """The folder and the patches of one row, without what the rows before it have logged or printed."""
    own: dict[str, Any] = {}
    if "caplog" in fixtures:
        fixtures["caplog"].clear()
    if "capsys" in fixtures:
        fixtures["capsys"].readouterr()
    if "tmp_path" in fixtures:
        own["tmp_path"] = Path(fixtures["tmp_path"]) / f"row{row}"
        own["tmp_path"].mkdir()
    if "monkeypatch" in fixtures:
        own["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
    return own
