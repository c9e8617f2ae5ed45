"""`python -m idyn.library.build`: build the library of kernels beside the sources; with `--if-stale`, only if it is needed."""

import os
import sys

os.environ["IDYN_KERNELS"] = "build"
if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of the code: the same sources give the same bytes
    os.execve(sys.executable, [sys.executable, "-m", "idyn.library.build", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from idyn.library.native import loaded, symbol_of

BEGIN = time.monotonic()


def compile_part(part: str) -> tuple[bytes, dict[str, str]]:
    """Return the object file of a part of the entries, and the types of their results."""
    from idyn.library.build import back, front  # noqa: PLC0415  (numba is not needed to see whether the library is fresh)

    results: dict[str, str] = {}
    front.keep_modules()
    for symbol, (kernel, kinds) in PARTS[part].items():
        results[symbol] = front.compile_entry(kernel, kinds, symbol)
        if len(results) % 20 == 0 or len(results) == len(PARTS[part]):
            print(f"{part}: {len(results)} of {len(PARTS[part])} kernels, {time.monotonic() - BEGIN:.0f} s", flush=True)
    return back.emit(front.MODULES, [*results]), results


PARTS: dict[str, dict[str, Any]] = {"predictions": {}, "others": {}}
"""Kernel and argument types of the entries by symbol, for two processes."""

if not ("--if-stale" in sys.argv and not loaded()[2]):
    from idyn.library.build import back, roster

    for kernel, kinds in roster.entries():
        symbol = symbol_of(kernel.py_func, kinds)
        PARTS["others" if symbol.startswith(roster.SECOND_PROCESS) else "predictions"][symbol] = kernel, kinds
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        (first, of_first), (second, of_second) = pool.map(compile_part, PARTS)
    back.write_libraries([first, second], {"results": of_first | of_second, "sources": roster.sources()})
    print(f"kernels built in {time.monotonic() - BEGIN:.0f} s", flush=True)
