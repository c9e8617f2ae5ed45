"""Kernels: functions that Python calls in the library, and that call each other there.

    @compiled   a kernel
    @inlined    a kernel that one other kernel calls, compiled as a part of it
    @entry      a kernel that Python calls with arguments of these types
    entry_point a kernel for types that are known at run time only: each law has records of its own

`idyn.library.mode` says what a call runs. A kernel without an entry runs as Python where Python calls it; where a kernel calls
another one, both are in the library.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from idyn.library.mode import BUILD, LIBRARY, MODE, NUMBA
from idyn.library.native import native
from idyn.library.records import ArrayRecord, kind_of

F = TypeVar("F", bound=Callable[..., Any])

ENTRIES: dict[tuple[Any, tuple[Any, ...]], None] = {}
"""Kernels and argument types of every entry that was defined in this process; the build compiles these."""

_SOURCES: dict[Any, Any] = {}
"""Kernels of the library's functions."""

CHOSEN: dict[str, Any] = {}
"""Kernels that records choose in `attempt`, by the name of the record's type."""


def compiled(function: F) -> F:
    """Mark a kernel: no Python objects, no exceptions, the GIL released."""
    return numba_mode.compiled(function) if MODE in (NUMBA, BUILD) else function


def inlined(function: F) -> F:
    """Mark a kernel that is compiled as part of its caller."""
    return numba_mode.compiled(function, inline="always") if MODE in (NUMBA, BUILD) else function


def entry(*types: Any) -> Callable[[F], F]:
    """Mark a kernel that Python calls with arguments of these types, see `idyn.library.records`. Others raise TypeError."""
    return lambda function: entry_point(compiled(function), *types)


def entry_point(kernel: Any, *types: Any) -> Any:
    """Return a kernel as a function that Python calls with arguments of these types. Others raise TypeError."""
    kinds = kind_of(types)
    ENTRIES[kernel, kinds] = None
    if MODE != LIBRARY:
        return kernel
    function = native(kernel, kinds)
    _SOURCES[function] = kernel
    return function


def interpreted(kernel: Any) -> Any:
    """Return the Python function of a kernel."""
    kernel = _SOURCES.get(kernel, kernel)
    return getattr(kernel, "py_func", kernel)


def stack_array(shape: Any, kind: Any = np.float64) -> Any:
    """Return `np.empty(shape, kind)`, in the stack frame of the calling kernel if the array is small.

    kind: np.float64, np.int64 or np.bool_

    The array is valid during this call of the kernel: never return it, a view of it or a record that contains it. Never call
    this function in a loop: each call takes stack.
    """
    return np.empty(shape, kind)


@cache
def record_for(base: type[ArrayRecord], kernel: Any) -> Any:
    """Return the subclass of a record class that chooses `kernel` in `attempt`."""
    function = interpreted(kernel)
    name = f"{base.__name__}[{function.__module__}.{function.__name__}]"
    made: Any = type(name, (base,), {"__module__": base.__module__})
    CHOSEN[made.TYPE.name] = kernel
    return made


def attempt(problem: Any, law: Any, basis: Any, rung: int) -> Any:
    """Run rung (solver attempt) number `rung` of a law by the kernel that its record chooses; see `idyn.laws.law.Attempt`."""
    return interpreted(CHOSEN[law.TYPE.name])(problem, law, basis, rung)


if MODE in (NUMBA, BUILD):
    try:
        from idyn.library.build import numba_mode
    except ImportError as error:
        raise ImportError(f"IDYN_KERNELS=numba needs a checkout: pip install -e '.[dev]' ({error})") from error
    numba_mode.know(stack_array, attempt, CHOSEN)
