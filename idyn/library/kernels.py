"""Kernels: functions that Python calls in the library, and that call each other there.

    @compiled   a kernel
    @inlined    a kernel that one other kernel calls, compiled as a part of it
    @entry      a kernel that Python calls with arguments of these types
    entry_point a kernel for types that are known at run time only: each law has records of its own

`idyn.library.mode` says what a call runs. A kernel without an entry runs as Python where Python calls it; where a kernel calls
another one, both are in the library.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from idyn.library.kinds import Kind
from idyn.library.mode import LIBRARY, MODE, NUMBA
from idyn.library.native import native
from idyn.library.records import ArrayRecord

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=ArrayRecord)

ENTRIES: list[tuple[Any, tuple[Kind, ...]]] = []
"""Kernels and argument types of every entry that was defined in this process; the build compiles these."""

_SOURCES: dict[Any, Any] = {}
"""Python functions of the library's functions."""

OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


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
    function: F = _SOURCES.get(kernel) or getattr(kernel, "py_func", kernel)
    return function


def stack_array(shape: Any, kind: Any = np.float64) -> Any:
    """Return `np.empty(shape, kind)`, in the stack frame of the calling kernel if the array is small.

    kind: np.float64, np.int64 or np.bool_

    The array is valid during this call of the kernel: never return it, a view of it or a record that contains it. Never call
    this function in a loop: each call takes stack.
    """
    return np.empty(shape, kind)


class Dispatch:
    """Kernels by record type, called as one function `stub(problem, record, basis, rung)` in kernels and in Python."""

    def __init__(self) -> None:
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._records: dict[tuple[Any, Callable[..., Any]], Any] = {}

    def record_for(self, base: type[R], kernel: Callable[..., Any]) -> type[R]:
        """Return the subclass of the record class `base` whose type selects `kernel`."""
        known: type[R] | None = self._records.get((base, kernel))
        if known is None:
            function = interpreted(kernel)
            name = f"{base.__name__}[{function.__module__}.{function.__name__}]"
            known = self._records[base, kernel] = type(name, (base,), {"__module__": base.__module__})
            self._kernels[known.TYPE.name] = kernel
        return known

    def kernel(self, kind: Any) -> Callable[..., Any]:
        """Return the kernel that the type of a record selects. A type of another process imports its module."""
        if kind.name not in self._kernels:
            module, _, name = kind.name.partition("[")[2].rstrip("]").rpartition(".")
            self._kernels[kind.name] = getattr(import_module(module), name)
        return self._kernels[kind.name]


LAWS = Dispatch()


def attempt(problem: Any, law: Any, basis: Any, rung: int) -> Any:
    """Run rung (solver attempt) number `rung` of a law by the kernel that its record selects; see `idyn.laws.law.Attempt`."""
    return interpreted(LAWS.kernel(law.TYPE if isinstance(law, ArrayRecord) else law.kind))(problem, law, basis, rung)


if MODE == NUMBA:
    try:
        from idyn.library.build import numba_mode
    except ImportError as error:
        raise ImportError(f"IDYN_KERNELS=numba needs the extra 'dev': pip install 'idyn[dev]' ({error})") from error
