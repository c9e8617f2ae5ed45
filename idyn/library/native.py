"""The library of kernels: loading, and its functions as Python calls them.

`libidyn.so` holds the kernels and a table of its entries, and of the sources that it was built from. It is loaded when the
first entry is defined. A library that is missing, was built from other sources or for another processor is refused: calls raise
KernelError, which names the cause.
"""

import ctypes
import hashlib
import json
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import KernelError
from idyn.library.digest import code_digest, file_digest
from idyn.library.records import ArrayRecord, described, signature

FOLDER = Path(__file__).parent
LIBRARY_FILE, CALL_FILE = FOLDER / "libidyn.so", FOLDER / "_call.abi3.so"
BUILD = "python -m idyn.library.build"
"""In a checkout; a wheel has the library and nothing to build it with."""


def symbol_of(kernel: Any, kinds: tuple[Any, ...]) -> str:
    """Return the name of an entry in the library: that of its kernel, with a digest of the types of its arguments."""
    digest = hashlib.sha256(str([*signature(kinds)]).encode()).hexdigest()[:8]
    return f"{kernel.__module__}.{kernel.__name__}.{digest}".replace(".", "_")


def load() -> tuple[ctypes.CDLL, dict[str, str]]:
    """Load the library. Return it and the types of the results of its entries, see `give` of `call.c`. Raises KernelError."""
    if not (LIBRARY_FILE.exists() and CALL_FILE.exists()):
        raise KernelError(f"the library of kernels is not built; build it: {BUILD}")
    try:
        library, _ = ctypes.CDLL(str(LIBRARY_FILE)), import_module("idyn.library._call")
    except (OSError, ImportError) as error:
        raise KernelError(f"the library of kernels cannot be loaded ({error}); build it for this machine: {BUILD}") from error
    if not library.idyn_processor():
        raise KernelError(f"the library of kernels needs a processor with AVX2 and FMA; build it for this one: {BUILD}")
    table = json.loads(ctypes.c_char_p.in_dll(library, "idyn_table_address").value or b"{}")
    changed = [name for name, digests in table["sources"].items() if _changed(FOLDER.parents[1] / name, *digests)]
    if changed:
        raise KernelError(
            f"the library of kernels was built from other sources: {', '.join(sorted(changed))}; build it: {BUILD}"
        )
    return library, table["results"]


def _changed(path: Path, file: str, code: str) -> bool:
    """Return whether the kernels and constants of a file are not those of the build. Other files may be absent."""
    text = path.read_bytes() if path.exists() else b""
    return path.exists() and file_digest(text) != file and code_digest(text.decode()) != code


@cache
def loaded() -> tuple[Any, dict[str, str], str]:
    """Return the library, the types of its results, and why it is refused, or ''."""
    try:
        return *load(), ""
    except KernelError as error:
        return None, {}, str(error)


def native(kernel: Any, kinds: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the library's function for a kernel and argument types."""
    symbol, types, (library, results, reason) = symbol_of(kernel, kinds), described(kinds), loaded()
    if symbol not in results:
        ways = "A law, task or planner of your own runs with IDYN_KERNELS=python, in a checkout also with IDYN_KERNELS=numba"
        lacks = f"{kernel.__module__}.{kernel.__name__}: the library has no kernel for {types}. {ways}"
        return partial(_refuse, reason or lacks)
    address, words = ctypes.cast(library[symbol], ctypes.c_void_p).value, [*signature(kinds)]
    head = np.array([address, id(ArrayRecord), id(_named), 8 * (4 + len(words)), *words], np.int64)
    text = f"{results[symbol]}\0{kernel.__name__}: expected {types}\0"
    bound: Callable[..., Any] = import_module("idyn.library._call").bind(head.tobytes() + text.encode())
    return bound


def _refuse(reason: str, *_: Any) -> None:
    raise KernelError(reason)


def _named(name: str, members: tuple[Any, ...]) -> Any:
    """Return a result of a kernel: an array, named by the letter of its numbers, or a named tuple of this class.

    members: of an array its owner, address and shape; the result is a copy, and the kernel's array is released.
    """
    if "." in name:
        module, _, name = name.rpartition(".")
        return getattr(sys.modules[module], name)(*members)
    owner, address, *shape = members
    found = np.empty(shape, name)
    ctypes.memmove(found.ctypes.data, address, found.nbytes)
    loaded()[0].idyn_release(ctypes.c_void_p(owner))
    return found
