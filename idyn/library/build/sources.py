"""The sources of kernels: the files that hold them, what these import, and digests of both."""

import ast
from functools import cache
from pathlib import Path

from idyn.library.digest import code_digest, digest, is_kernel

LIBRARY, ROOT = Path(__file__).parents[1], Path(__file__).parents[3]
PACKAGES = ("idyn", "controllers", "transport", "sim_harness")


def kernel_files() -> list[Path]:
    """Return the files that hold kernels."""
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if LIBRARY not in path.parents)
    return [path for path in files if any(map(is_kernel, ast.parse(path.read_text("utf-8")).body))]


@cache
def imported(path: Path) -> set[Path]:
    """Return the files of the project that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
            place = ROOT.joinpath(*node.module.split("."))
            found |= {each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()}
    return found


@cache
def reached(path: Path) -> set[Path]:
    """Return a module and those of the project that it imports, directly or not."""
    return {path}.union(*map(reached, imported(path)))


@cache
def code(path: Path) -> str:
    """Return the digest of what kernels may use of a module."""
    return code_digest(path.read_text("utf-8"))


def sources() -> dict[str, tuple[str, str]]:
    """Return the digests of the files that kernels stand in or take constants from, see `idyn.library.digest`."""
    kernels = kernel_files()
    files = {path for path in set(kernels).union(*map(imported, kernels)) if LIBRARY not in path.parents}
    return {str(path.relative_to(ROOT)): (digest(path.read_bytes()), code(path)) for path in sorted(files)}
