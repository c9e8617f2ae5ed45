"""Kernels: functions that Python calls in the library, and that call each other there.

    @compiled   a kernel
    @inlined    a kernel that one other kernel calls, compiled as a part of it
    @entry      a kernel that Python calls with arguments of these types
    entry_point a kernel for types that are known at run time only: each law has records of its own

`idyn.library.mode` says what a call runs. A kernel without an entry runs as Python where Python calls it; where a kernel calls
another one, both are in the library.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from idyn.library.dispatch import LAWS, attempt, python_of, stack_array
from idyn.library.kinds import Kind
from idyn.library.mode import LIBRARY, MODE, NUMBA
from idyn.library.native import native

F = TypeVar("F", bound=Callable[..., Any])

ENTRIES: list[tuple[Any, tuple[Kind, ...]]] = []
"""Kernels and argument types of every entry that was defined in this process; the build compiles these."""

_SOURCES: dict[Any, Any] = {}
"""Python functions of the library's functions."""

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: F) -> F:
    """Mark a kernel: no Python objects, no exceptions, the GIL released."""
    return function if MODE != NUMBA else _by_numba(function, cache=True)


def inlined(function: F) -> F:
    """Mark a kernel that is compiled as part of its caller."""
    return function if MODE != NUMBA else _by_numba(function, inline="always")


def _by_numba(function: Any, **options: Any) -> Any:
    return numba_mode.compiled(function, **OPTIONS, **options)


def entry(*types: Kind) -> Callable[[F], F]:
    """Mark a kernel that Python calls with arguments of these types. Other arguments raise TypeError."""

    def mark(function: F) -> F:
        return entry_point(compiled(function), *types)

    return mark


def entry_point(kernel: Any, *types: Kind) -> Any:
    """Return a kernel as a function that Python calls with arguments of these types. Other arguments raise TypeError."""
    ENTRIES.append((kernel, types))
    if MODE != LIBRARY:
        return kernel
    function = native(kernel, types)
    _SOURCES[function] = kernel
    return function


def interpreted(kernel: F) -> F:
    """Return the Python function of a kernel."""
    function: F = _SOURCES.get(kernel) or python_of(kernel)
    return function


if MODE == NUMBA:
    try:
        from idyn.library.build import numba_mode
    except ImportError as error:
        raise ImportError(f"IDYN_KERNELS=numba needs a checkout: pip install -e '.[dev]' ({error})") from error

__all__ = ["ENTRIES", "LAWS", "attempt", "compiled", "entry", "entry_point", "inlined", "interpreted", "stack_array"]
