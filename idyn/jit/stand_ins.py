"""Whether calls of kernels that are not in the cache run a stand-in (`idyn.jit.background`), or compile the kernel."""

from collections.abc import Callable
from typing import Any

Find = Callable[[Any, tuple[Any, ...]], Any]
"""Function of a kernel and argument types that returns a callable in place of the kernel, or None."""


class _StandIns:
    find: Find | None = None
    refused = False


_STATE = _StandIns()


def stand_in(kernel: Any, types: tuple[Any, ...]) -> Any:
    """Return what calls of a kernel run for arguments of these types; None: the kernel is compiled here."""
    return None if _STATE.find is None else _STATE.find(kernel, types)


def use_stand_ins(find: Find) -> None:
    """Let `stand_in` return the result of `find`, unless `compile_here` was called."""
    if not _STATE.refused:
        _STATE.find = find


def compile_here() -> None:
    """Compile kernels in this process, before they are called, from now on: for real-time loops and measurements."""
    _STATE.refused, _STATE.find = True, None


def compiles_here() -> bool:
    """Return whether kernels are compiled in this process before they are called."""
    return _STATE.find is None
