"""What the library contains: the entries of all modules that hold kernels, and those of each law."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from idyn.library.build.cache import PACKAGES, ROOT, imported
from idyn.library.digest import code_digest, file_digest, is_kernel
from idyn.library.kernels import ENTRIES
from idyn.library.native import FOLDER

SECOND_PROCESS = ("idyn_tasks", "idyn_differentiation", "controllers", "transport", "sim_harness")
"""Beginnings of the symbols that the second process of the build compiles: half of the work, few callees in common."""


def entries() -> list[tuple[Any, tuple[Any, ...]]]:
    """Return the kernel and argument types of every entry, each once."""
    for path in _kernel_files():
        import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    solve, members = import_module("idyn.prediction.solve"), import_module("idyn.batch.members")
    for kind in solve.method_types():
        for define in (solve.tick_for, solve.solve_again_for, solve.kernel_for, members.solve_members_for):
            define(kind)
    return list(ENTRIES)


def _kernel_files() -> list[Path]:
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if FOLDER not in path.parents)
    return [path for path in files if any(map(is_kernel, ast.parse(path.read_text("utf-8")).body))]


def sources() -> dict[str, tuple[str, str]]:
    """Return the digests of the files that kernels stand in or take constants from, see `idyn.library.digest`."""
    kernels = _kernel_files()
    files = {path for path in set(kernels).union(*map(imported, kernels)) if FOLDER not in path.parents}
    texts = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(files)}
    return {name: (file_digest(text), code_digest(text.decode())) for name, text in texts.items()}
