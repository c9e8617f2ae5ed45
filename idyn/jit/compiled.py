"""`@compiled`: numba for the inner loops, with a disk cache keyed by code (`idyn.jit.cache`).

numba keys a cached kernel by its own source file and does not notice changes of kernels that it calls in other files.
`NUMBA_DISABLE_JIT=1` runs the same functions as plain Python; `NUMBA_CACHE_DIR` moves the cache. Arrays that belong together
cross as one argument, see `idyn.jit.records`.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import numba
from numba.core import event

from idyn.jit.cache import KernelCache
from idyn.jit.linking import leave_outside
from idyn.jit.mode import PLAIN

VECTOR, MATRIX, CUBE = numba.float64[::1], numba.float64[:, ::1], numba.float64[:, :, ::1]
INDICES, SPANS = numba.int64[::1], numba.int64[:, ::1]
FLAGS, MASK, BASES = numba.boolean[::1], numba.boolean[:, ::1], numba.boolean[:, :, ::1]
"""Types of fields: arrays that can be written to, their rows one after the other."""

WHOLE, REAL, FLAG = numba.int64, numba.float64, numba.boolean
"""And single numbers."""

COLLECT_AFTER = 50_000
"""While kernels are compiled, so many new objects make Python look for garbage, not 700: that takes a fifth of the time
otherwise. It costs 50 MB."""

TELL_S = 5.0
"""How often there is news while kernels are compiled [s]."""

KERNELS: list[Any] = []
"""All of this process."""

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """For a function that is called in one place, by a compiled one: it is compiled with its caller, not twice."""
    return _compiled(function, inline="always")


def compiled(function: F) -> F:
    """Compile `function` with numba (no Python objects, GIL released), cached on disk: once for arguments of the same types,
    whether a caller writes them out as numbers or not."""
    return _compiled(function)


def _compiled(function: F, **options: str) -> F:
    kernel = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if not numba.config.DISABLE_JIT:
        kernel._cache = KernelCache(function)
        if not PLAIN:
            _take_literals_as_numbers(kernel)
            leave_outside(kernel)
        KERNELS.append(kernel)
    return kernel


def _take_literals_as_numbers(kernel: Any) -> None:
    """For numba the 0 in f(x, 0) is of a type of its own: f would be compiled anew for it."""
    template = kernel.get_call_template

    def of_numbers(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(numba.types.unliteral, args)), {k: numba.types.unliteral(v) for k, v in kws.items()})

    kernel.get_call_template = of_numbers


@contextmanager
def compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile kernels are compiled faster, and `tell` is called when one is about to be compiled, not when it is read from
    the disk, and every few seconds while there are more: with a sentence that says how far things are."""
    listener, before = _Compiling(tell), gc.get_threshold()
    event.register("numba:compile", listener)
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        event.unregister("numba:compile", listener)


class _Compiling(event.Listener):  # type: ignore[misc]
    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._due = tell, 0.0

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] in KERNELS and monotonic() >= self._due:
            self._due = monotonic() + TELL_S
            ready = sum(bool(kernel.signatures) for kernel in KERNELS)
            self._tell(f"compiling kernels, once on this machine: {ready} are ready")

    def on_end(self, event: Any) -> None:
        """Of no interest."""


def interpreted(function: F) -> F:
    """A compiled function as the Python it was written in."""
    python: F = getattr(function, "py_func", function)
    return python


def several(kind: Any, count: int) -> Any:
    """Type of a tuple of so many of a kind."""
    return numba.types.UniTuple(kind, count)


def only(function: Callable[..., Any], *types: Any) -> None:
    """Compile for arguments of these types only: any others are a TypeError, not a minute of compiling."""
    if numba.config.DISABLE_JIT:
        return
    if not function.signatures:  # type: ignore[attr-defined]
        function.compile(types)  # type: ignore[attr-defined]
    function.disable_compile()  # type: ignore[attr-defined]
