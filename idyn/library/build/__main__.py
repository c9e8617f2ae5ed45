"""`python -m idyn.library.build`: build the library of kernels beside the sources; with `--if-stale`, only if it is needed."""

import os
import sys

os.environ["IDYN_KERNELS"] = "build"
if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of the code: the same sources give the same bytes
    os.execve(sys.executable, [sys.executable, "-m", "idyn.library.build", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})

import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from idyn.library.kernels import load, symbol_of

BEGIN = time.monotonic()


def compile_part(part: str) -> tuple[bytes, dict[str, Any]]:
    """Return the object file of a part of the entries, and the kinds of their results."""
    results: dict[str, Any] = {}
    front.keep_modules()
    for symbol, (kernel, kinds) in PARTS[part].items():
        results[symbol] = front.compile_entry(kernel, kinds, symbol)
        if len(results) % 20 == 0 or len(results) == len(PARTS[part]):
            print(f"{part}: {len(results)} of {len(PARTS[part])} kernels, {time.monotonic() - BEGIN:.0f} s", flush=True)
    return back.emit(front.MODULES, [*results]), results


def entries() -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernel and argument types of every entry: those of all modules that hold kernels, and those of each law."""
    for path in sources.kernel_files():
        import_module(".".join(path.relative_to(sources.ROOT).with_suffix("").parts))
    solve, members = import_module("idyn.prediction.solve"), import_module("idyn.batch.members")
    for kind in solve.method_types():
        for define in (solve.tick_for, solve.solve_again_for, solve.kernel_for, members.solve_members_for):
            define(kind)
    return list(import_module("idyn.library.kernels").ENTRIES)


SECOND_PROCESS = ("idyn_tasks", "idyn_differentiation", "controllers", "transport", "sim_harness")
"""Beginnings of the symbols that the second process compiles: half of the work, few callees in common."""

PARTS: dict[str, dict[str, Any]] = {"predictions": {}, "others": {}}
"""Kernel and argument types of the entries by symbol, for two processes."""

if not ("--if-stale" in sys.argv and not load()[-1]):
    from idyn.library.build import back, front, sources  # and numba, which is not needed to see whether the library is fresh

    for kernel, kinds in entries():
        symbol = symbol_of(kernel, kinds)
        PARTS["others" if symbol.startswith(SECOND_PROCESS) else "predictions"][symbol] = kernel, kinds
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        (first, of_first), (second, of_second) = pool.map(compile_part, PARTS)
    back.write_libraries([first, second], {"results": of_first | of_second, "sources": sources.sources()})
    print(f"kernels built in {time.monotonic() - BEGIN:.0f} s", flush=True)
