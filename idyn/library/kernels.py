"""Kernels: functions that Python calls in the library, and that call each other there.

    @compiled   a kernel
    @entry      a kernel that Python calls with arguments of these types
    entry_point a kernel for types that are known at run time only: each law has records of its own

`idyn.library.mode` says what a call runs. A kernel without an entry runs as Python where Python calls it; where a kernel calls
another one, both are in the library: `libidyn.so`, with a table of its entries and of the sources that it was built from. It is
loaded when the first entry is defined. A library that is missing, was built from other sources or for another processor is
refused: calls raise KernelError, which names the cause.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from functools import cache, partial
from math import prod
from pathlib import Path
from struct import calcsize
from typing import Any, TypeVar

import numpy as np

from idyn.errors import KernelError
from idyn.library.digest import code_digest, digest
from idyn.library.mode import BUILD, LIBRARY, MODE, NUMBA
from idyn.library.records import ArrayRecord, kind_of, signature

FOLDER = Path(__file__).parent
LIBRARY_FILE, CALL_FILE = FOLDER / "libidyn.so", FOLDER / "_call.abi3.so"
BUILT_BY = "python -m idyn.library.build"
"""In a checkout; a wheel has the library and nothing to build it with."""

F = TypeVar("F", bound=Callable[..., Any])

ENTRIES: dict[tuple[Any, tuple[Any, ...]], None] = {}
"""Kernels and argument types of every entry that was defined in this process; the build compiles these."""


def compiled(function: F) -> F:
    """Mark a kernel: no Python objects, no exceptions, the GIL released."""
    return numba_mode.compiled(function) if MODE in (NUMBA, BUILD) else function


def entry(*types: Any) -> Callable[[F], F]:
    """Mark a kernel that Python calls with arguments of these types, see `idyn.library.records`. Others raise TypeError."""
    return lambda function: entry_point(compiled(function), *types)


def entry_point(kernel: Any, *types: Any) -> Any:
    """Return a kernel as a function that Python calls with arguments of these types. Others raise TypeError."""
    kinds = kind_of(types)
    ENTRIES[kernel, kinds] = None
    return native(kernel, kinds) if MODE == LIBRARY else kernel


def interpreted(kernel: Any) -> Any:
    """Return the Python function of a kernel, which is the last of the parts of a function of the library."""
    parts = getattr(kernel, "__self__", None) or (kernel,)
    return getattr(parts[-1], "py_func", parts[-1])


def stack_array(shape: Any, kind: Any = np.float64) -> Any:
    """Return `np.empty(shape, kind)`, on the stack of the calling kernel if the array is small. kind: np.float64, int64, bool_,
    complex128

    The array is valid during this call of the kernel: never return it, a view of it or a record that contains it. Never call
    this function in a loop: each call takes stack.
    """
    return np.empty(shape, kind)


def symbol_of(kernel: Any, kinds: tuple[Any, ...]) -> str:
    """Return the name of an entry in the library: that of its kernel, with a digest of the types of its arguments."""
    return f"{kernel.__module__}.{kernel.__name__}.{digest(str(signature(kinds)).encode())[:8]}".replace(".", "_")


@cache
def load() -> tuple[Any, Any, dict[str, Any], str]:
    """Return the library, `idyn_bind` of `call.c`, the kinds of the results of entries, and why it is refused, or ''."""
    try:
        library, bind = ctypes.CDLL(str(LIBRARY_FILE)), ctypes.PyDLL(str(CALL_FILE)).idyn_bind
    except (OSError, AttributeError) as error:
        return None, None, {}, f"the library of kernels is not built for this machine ({error}); build it: {BUILT_BY}"
    bind.restype, bind.argtypes, library.idyn_release.argtypes = ctypes.py_object, [ctypes.py_object], [ctypes.c_void_p]
    table = json.loads(ctypes.c_char_p.in_dll(library, "idyn_table_address").value or b"{}")
    changed = [name for name, digests in table["sources"].items() if _changed(FOLDER.parents[1] / name, *digests)]
    flaw = f"was built from other sources: {', '.join(sorted(changed))}" if changed else ""
    flaw = flaw if library.idyn_processor() else "needs a processor with AVX2 and FMA"
    return library, bind, table["results"], f"the library of kernels {flaw}; build it: {BUILT_BY}" if flaw else ""


def _changed(path: Path, file: str, code: str) -> bool:
    """Return whether the kernels and constants of a file are not those of the build. Other files may be absent."""
    text = path.read_bytes() if path.exists() else b""
    return path.exists() and digest(text) != file and code_digest(text.decode()) != code


def native(kernel: Any, kinds: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the library's function for a kernel and argument types; its last part is the kernel."""
    symbol, (library, bind, results, reason) = symbol_of(kernel, kinds), load()
    if reason or symbol not in results:
        ways = "A law, task or planner of your own runs with IDYN_KERNELS=python, in a checkout also with IDYN_KERNELS=numba"
        lacks = f"{kernel.__module__}.{kernel.__name__}: the library has no kernel for {kinds}. {ways}"

        def refused(*_: Any) -> None:
            raise KernelError(reason or lacks)

        return refused
    program = np.array([ctypes.cast(library[symbol], ctypes.c_void_p).value, *signature(kinds)], np.int64).tobytes()
    return bind((program, ArrayRecord, np.ndarray, _kind(results[symbol]), f"{kernel.__name__}: expected {kinds}", kernel))


def _kind(found: Any) -> Any:
    """Return the kind of a result for `give` of `call.c`. found: a letter; or the name of a class, the letter of an array's
    numbers or '', and the kinds of the members, which are an array's owner, address and shape."""
    if isinstance(found, str):
        return found.encode()
    module, _, name = found[0].rpartition(".")
    make = getattr(sys.modules[module], name) if module else partial(_array, name) if name else None
    return make, *map(_kind, found[1:])


def _array(letter: str, owner: int, address: int, *shape: int) -> np.ndarray:
    """Return a copy of a kernel's array, which is released."""
    found = np.ndarray(shape, letter, bytearray(ctypes.string_at(address, prod(shape) * calcsize(letter))))
    load()[0].idyn_release(owner)
    return found


if MODE in (NUMBA, BUILD):
    try:
        from idyn.library.build import numba_mode
    except ImportError as error:
        raise ImportError(f"IDYN_KERNELS=numba needs a checkout: pip install -e '.[dev]' ({error})") from error
    numba_mode.know(stack_array)
