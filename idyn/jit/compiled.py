"""`@compiled`: numba for the inner loops, with a disk cache keyed by code (`idyn.jit.cache`).

numba keys a cached kernel by its own source file and does not notice changes of kernels that it calls in other files.
`NUMBA_DISABLE_JIT=1` runs the same functions as plain Python; `NUMBA_CACHE_DIR` moves the cache. A record of several arrays is
passed to a kernel as one argument, see `idyn.jit.records`.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import OmittedArg

from idyn.jit.cache import KernelCache
from idyn.jit.linking import leave_outside
from idyn.jit.mode import PLAIN
from idyn.jit.stand_ins import compile_here, stand_in

VECTOR, MATRIX, CUBE = numba.float64[::1], numba.float64[:, ::1], numba.float64[:, :, ::1]
INDICES, SPANS = numba.int64[::1], numba.int64[:, ::1]
FLAGS, MASK, BASES = numba.boolean[::1], numba.boolean[:, ::1], numba.boolean[:, :, ::1]
"""Types of array arguments and fields: writable, contiguous in C order."""

WHOLE, REAL, FLAG = numba.int64, numba.float64, numba.boolean
"""Types of single numbers."""

log = logging.getLogger("idyn")

COLLECT_AFTER = 50_000
"""Threshold of Python's garbage collection while kernels are compiled [new objects]. With the default of 700 garbage collection
takes a fifth of the compile time; this threshold costs 50 MB."""

TELL_S = 5.0
"""Shortest time between two progress messages while kernels are compiled [s]."""

TELL_AFTER_S = 1.0
"""Time from the first compilation to the first message when the library is used without `compiling` [s]."""

HINT = "; it takes about a minute (with NUMBA_DISABLE_JIT=1 nothing is compiled, and a prediction takes 5 ms instead of 25 µs)"
"""Addition to the first message of the log."""

KERNELS: list[Any] = []
"""All kernels of this process."""

CompileTask = Callable[[], object]
"""Function that compiles or loads kernels. Its result is not used."""

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Compile `function` as part of its caller only, not as a kernel of its own. For functions that one kernel calls."""
    return _compiled(function, inline="always")


def compiled(function: F) -> F:
    """Compile `function` with numba (no Python objects, GIL released), cached on disk: once for each set of argument types,
    whether a caller passes literals or variables."""
    return _compiled(function)


def _compiled(function: F, **options: str) -> F:
    kernel = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if not numba.config.DISABLE_JIT:
        kernel._cache = KernelCache(function)
        if not PLAIN:
            _take_literals_as_numbers(kernel)
            leave_outside(kernel)
            kernel._compile_for_args = partial(_called, kernel)
        KERNELS.append(kernel)
    return kernel


def _called(kernel: Any, *arguments: Any) -> Any:
    """Return what a call of a kernel runs for arguments of types for which it is not loaded. numba finds this function by the
    name `_compile_for_args`; if it did not, such a call would compile."""
    if any(isinstance(each, OmittedArg) for each in arguments):
        return type(kernel)._compile_for_args(kernel, *arguments)
    return stand_in(kernel, tuple(map(kernel.typeof_pyval, arguments))) or type(kernel)._compile_for_args(kernel, *arguments)


class NotCached(Exception):
    """A kernel is not in the cache."""


def load_cached(kernel: Any, types: tuple[Any, ...]) -> Any:
    """Return a kernel for arguments of these types if it is loaded or in the cache, else None."""

    def refuse(_: str) -> None:
        raise NotCached

    with global_compiler_lock:
        before, PROGRESS.tell, PROGRESS.due = (PROGRESS.tell, PROGRESS.due), refuse, 0.0
        try:
            return kernel.compile(types)
        except NotCached:
            return None
        finally:
            PROGRESS.tell, PROGRESS.due = before


def _take_literals_as_numbers(kernel: Any) -> None:
    """Treat literal arguments as numbers: numba gives the 0 in f(x, 0) a type of its own and would compile f again for it."""
    template = kernel.get_call_template

    def of_numbers(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(numba.types.unliteral, args)), {k: numba.types.unliteral(v) for k, v in kws.items()})

    kernel.get_call_template = of_numbers


@contextmanager
def compiling(tell: Callable[[str], None]) -> Iterator[None]:
    """Context in which kernels are compiled faster (`COLLECT_AFTER`) and `tell` receives the progress messages.

    It receives a sentence before a kernel is compiled, at most every `TELL_S`; kernels read from the disk are not reported.
    From now on this process compiles its kernels itself (`idyn.jit.stand_ins`).
    """
    compile_here()
    before, told = gc.get_threshold(), (PROGRESS.tell, PROGRESS.due)
    PROGRESS.tell, PROGRESS.due = tell, 0.0
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        PROGRESS.tell, PROGRESS.due = told


class _Progress(event.Listener):  # type: ignore[misc]
    """Reports that kernels are being compiled. Outside of `compiling`, the log receives warnings, from one second after the
    first kernel."""

    def __init__(self) -> None:
        self.tell: Callable[[str], None] = self._warn
        self.due: float | None = None
        self._hint = HINT

    def _warn(self, news: str) -> None:
        log.warning("%s%s", news, self._hint)
        self._hint = ""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] not in KERNELS:
            return
        if self.due is None:
            self.due = monotonic() + TELL_AFTER_S
        if monotonic() >= self.due:
            self.due = monotonic() + TELL_S
            ready = sum(bool(kernel.signatures) for kernel in KERNELS)
            self.tell(f"compiling kernels, once on this machine: {ready} are ready")

    def on_end(self, event: Any) -> None:
        """Ignore the end of a compilation."""


PROGRESS = _Progress()
event.register("numba:compile", PROGRESS)


def interpreted(function: F) -> F:
    """Return the Python function of a compiled one."""
    python: F = getattr(function, "py_func", function)
    return python


def several(kind: Any, count: int) -> Any:
    """Return the type of a tuple of `count` elements of type `kind`."""
    return numba.types.UniTuple(kind, count)


def only(function: Callable[..., Any], *types: Any) -> None:
    """Compile `function` for arguments of these types only. Calls with other types raise TypeError instead of compiling for a
    minute."""
    if numba.config.DISABLE_JIT:
        return
    if not function.signatures:  # type: ignore[attr-defined]
        function.compile(types)  # type: ignore[attr-defined]
    function.disable_compile()  # type: ignore[attr-defined]
