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
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idyn.errors import KernelError
from idyn.library.digest import code_digest, file_digest
from idyn.library.kinds import ArrayKind, Kind, described, signature
from idyn.library.records import StructHandle

FOLDER = Path(__file__).parent
LIBRARY_FILE, CALL_FILE = FOLDER / "libidyn.so", FOLDER / "_call.abi3.so"
BUILD = "python -m idyn.library.build"
"""In a checkout; a wheel has the library and nothing to build it with."""


class Library(NamedTuple):
    """The loaded library. results: type of the result of each symbol, see `_result_words`"""

    functions: ctypes.CDLL
    bind: Callable[[bytes], Callable[..., Any]]
    results: dict[str, Any]


def symbol_of(kernel: Any, types: tuple[Kind, ...]) -> str:
    """Return the name of an entry in the library: that of its kernel, with a digest of the types of its arguments."""
    words = json.dumps([signature(each) for each in types])
    return f"{kernel.__module__}.{kernel.__name__}.{hashlib.sha256(words.encode()).hexdigest()[:8]}".replace(".", "_")


@cache
def _loaded() -> Library | KernelError:
    """Return the library, or why it is refused."""
    try:
        return load()
    except KernelError as error:
        return error


def load() -> Library:
    """Load the library. Raises KernelError."""
    if not (LIBRARY_FILE.exists() and CALL_FILE.exists()):
        raise KernelError(f"the library of kernels is not built; build it: {BUILD}")
    try:
        functions, calls = ctypes.CDLL(str(LIBRARY_FILE)), import_module("idyn.library._call")
    except (OSError, ImportError) as error:
        raise KernelError(f"the library of kernels cannot be loaded ({error}); build it for this machine: {BUILD}") from error
    table = json.loads(ctypes.c_char_p.in_dll(functions, "idyn_table_address").value or b"{}")
    if not functions.idyn_processor():
        raise KernelError(f"the library of kernels needs a processor with AVX2 and FMA; build it for this one: {BUILD}")
    root = FOLDER.parents[1]
    changed = [name for name, digests in table["sources"].items() if _changed(root / name, *digests)]
    if changed:
        raise KernelError(
            f"the library of kernels was built from other sources: {', '.join(sorted(changed))}; build it: {BUILD}"
        )
    return Library(functions, calls.bind, table["results"])


def _changed(path: Path, file: str, code: str) -> bool:
    """Return whether the kernels and constants of a file are not those of the build. Other files may be absent."""
    if not path.exists():
        return False
    text = path.read_bytes()
    return file_digest(text) != file and code_digest(text.decode()) != code


def native(kernel: Any, types: tuple[Kind, ...]) -> Callable[..., Any]:
    """Return the library's function for a kernel and argument types."""
    symbol, library = symbol_of(kernel, types), _loaded()
    if isinstance(library, KernelError):
        return _refusal(str(library))
    try:
        address = ctypes.cast(library.functions[symbol], ctypes.c_void_p).value
    except AttributeError:
        return _refusal(
            f"{kernel.__module__}.{kernel.__name__}: the library has no kernel for ({', '.join(map(described, types))}). "
            "A law, task or planner of your own runs with IDYN_KERNELS=python, in a checkout also with IDYN_KERNELS=numba"
        )
    kind = library.results[symbol]
    arguments = [word for each in types for word in signature(each)]
    expected = f"{kernel.__name__}: expected ({', '.join(map(described, types))})"
    head = [address, id(StructHandle), 0, len(types), *arguments, *_result_words(kind)]
    head[2] = 8 * len(head)
    call = library.bind(np.array(head, np.int64).tobytes() + expected.encode() + b"\0")
    if not _needs_conversion(kind):
        return call

    def converted(*given: Any) -> Any:
        return _converted(kind, call(*given), library.functions.idyn_release)

    return converted


def _refusal(reason: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise KernelError(reason)

    return refuse


def _result_words(kind: Any) -> list[int]:
    """Return the words that describe a result to `call.c`.

    kind: a letter; ["A", letter, dimensions] for an array; [class or '', members…] for a tuple
    """
    if isinstance(kind, str):
        return [ord(kind)]
    if kind[0] == "A":
        return [ord("("), 2 + kind[2], *[ord("q")] * (2 + kind[2])]
    return [ord("("), len(kind) - 1, *(word for each in kind[1:] for word in _result_words(each))]


def _needs_conversion(kind: Any) -> bool:
    return not isinstance(kind, str) and (kind[0] != "" or any(map(_needs_conversion, kind[1:])))


def _converted(kind: Any, value: Any, release: Callable[[Any], None]) -> Any:
    """Return a result with arrays and named tuples. Arrays are copies; the kernel's are released."""
    if isinstance(kind, str):
        return value
    if kind[0] == "A":
        (owner, address, *shape), array = value, ArrayKind(kind[1], kind[2])
        found = np.empty(shape, array.dtype)
        if found.size:
            ctypes.memmove(found.ctypes.data, address, found.nbytes)
        release(ctypes.c_void_p(owner))
        return found
    parts = [_converted(each, part, release) for each, part in zip(kind[1:], value, strict=True)]
    if not kind[0]:
        return tuple(parts)
    module, _, name = kind[0].rpartition(".")
    return getattr(sys.modules.get(module) or import_module(module), name)(*parts)
