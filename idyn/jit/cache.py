"""The kernel cache on disk, addressed by content: a directory for each module with kernels and each state of its sources.

The digest of a module covers its own code and the code of all modules that it imports, directly or not; docstrings, comments
and blank lines do not count. So a change of code recompiles the kernels of the changed module and of the modules that
import it, and no others; checkouts with the same code share their kernels. numba adds its own version, the CPU and the types to
the key.
"""

import ast
import hashlib
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache

from idyn.jit.mode import PLAIN, cache_root

KEPT_S = 30 * 86400.0
"""A directory that was not used for this long is removed [s]."""

DIGITS = 16
"""Hexadecimal digits of a digest in a directory's name."""

OWN_ROOT = Path(__file__).parents[2]
"""The directory that holds the package `idyn`."""

OWN_PACKAGES = ("idyn", "controllers", "transport", "sim_harness")

INSTALLED = ("site-packages", "dist-packages")
"""Names of directories with installed packages."""

COMMENT = re.compile(r"  #[^\"'\n]*$", re.MULTILINE)
"""Comment after code. It contains no quotation mark, so the # is not inside a string."""

IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w., \t]+))", re.MULTILINE)


def root() -> Path:
    """Return the directory of the cache. Fallback mode (`IDYN_JIT=plain`) has a directory of its own."""
    return cache_root() / "plain" if PLAIN else cache_root()


def module_root(path: Path, module: str) -> Path:
    """Return the import root of a module: the directory from which `path`, its source file, is imported under its name."""
    parts = module.count(".") + (path.name == "__init__.py")
    return path.parents[parts]


@lru_cache(maxsize=4096)
def imported_files(path: Path, base: Path) -> frozenset[Path]:
    """Return the source files that a file imports from `base` or from the directory of `idyn`; other packages are ignored.

    Where packages are installed (`site-packages`), others are beside: only those of idyn and the file's own are followed.
    """
    found: set[Path] = set()
    own = {*OWN_PACKAGES, path.relative_to(base).parts[0].removesuffix(".py") if path.is_relative_to(base) else ""}
    for module, names, plain in IMPORT.findall(path.read_text(encoding="utf-8")):
        wanted = [name.strip().split(" ")[0] for name in plain.split(",")] if plain else [module]
        wanted += [f"{module}.{name}" for name in re.findall(r"\w+", names)] if module else []
        for name in wanted:
            for folder in (base, OWN_ROOT):
                if folder.name in INSTALLED and name.split(".")[0] not in own:
                    continue
                place = folder.joinpath(*name.split("."))
                found.update(each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file())
    return frozenset(found)


@lru_cache(maxsize=4096)
def code_digest(path: Path) -> bytes:
    """Return the digest of a source file without docstrings, comments and blank lines."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in _docstrings(ast.parse(source)):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        alone = not lines[first][: node.col_offset].strip() and not lines[last].encode()[node.end_col_offset :].strip()
        if alone:
            lines[first : last + 1] = [""] * (last + 1 - first)
    code = "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if '"""' not in code and "'''" not in code:  # no string goes over several lines
        code = COMMENT.sub("", code)
    return hashlib.sha256(code.encode()).digest()


def _docstrings(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the string expressions in the bodies of a module, its classes and their functions."""
    for child in getattr(node, "body", []):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
            yield child.value
        elif isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            yield from _docstrings(child)


@lru_cache(maxsize=4096)
def content_digest(path: Path, base: Path) -> str:
    """Return the digest of the code of a source file and of all files that it imports, directly or not."""
    reached, waiting = {path}, [path]
    while waiting:
        new = imported_files(waiting.pop(), base) - reached
        reached |= new
        waiting += new
    digest = hashlib.sha256()
    for source in sorted(reached, key=lambda each: each.parts[::-1]):
        digest.update(code_digest(source))
    return digest.hexdigest()[:DIGITS]


@lru_cache(maxsize=4096)
def cache_directory(path: Path, module: str) -> Path:
    """Return the cache directory for the present sources of a module, which need not exist, and mark it as used."""
    directory = root() / f"{module}-{content_digest(path, module_root(path, module))}"
    if directory.exists():
        with suppress(OSError):  # it belongs to another user, or was removed just now
            os.utime(directory)
    else:
        _prune_once(directory.parent)
    return directory


@lru_cache(maxsize=8)
def _prune_once(parent: Path) -> None:
    prune(parent)


def prune(parent: Path) -> None:
    """Remove cache directories that were not used for `KEPT_S`: only those that are named like the directories of this cache
    and contain numba's files alone. Directories that cannot be removed are ignored."""
    with suppress(OSError):
        for directory in parent.iterdir():
            if _is_ours(directory) and time() - directory.stat().st_mtime > KEPT_S:
                shutil.rmtree(directory, ignore_errors=True)


def _is_ours(directory: Path) -> bool:
    named = re.fullmatch(f"(?:[\\w.]+-)?[0-9a-f]{{{DIGITS}}}", directory.name)
    if not named or directory.is_symlink() or not directory.is_dir():
        return False
    files = [path.name for path in directory.rglob("*") if not path.is_dir()]
    return bool(files) and all(re.search(r"\.nb[ci](\.tmp\.|$)", name) for name in files)


class ContentLocator:
    """Cache locator in numba's protocol: tells numba the directory in which a kernel is cached."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self._directory = cache_directory(Path(code.co_filename), function.__module__)
        self._body = hashlib.sha256(code.co_code).hexdigest()[:DIGITS]

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> "ContentLocator":
        return cls(function)

    def get_cache_path(self) -> str:
        return str(self._directory)

    def ensure_cache_path(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """Return the directory's name, which changes with the sources."""
        return self._directory.name

    def get_disambiguator(self) -> str:
        """Return a hash of the bytecode: it distinguishes functions of the same name in one module. numba's line number would
        change with comments above the function."""
        return self._body


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (ContentLocator,)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of a function, in the directory of `cache_directory`. If the cache cannot be read or written, one warning
    is given and the kernel is compiled in each process."""

    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (ImportError, AttributeError):  # kernels for types of an earlier version, which are elsewhere now
            shutil.rmtree(self.cache_path, ignore_errors=True)
            return None
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            return _warn_once(error, self.cache_path)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            _warn_once(error, self.cache_path)


_WARNED: set[str] = set()


def _warn_once(error: Exception, path: str) -> None:
    """Warn that kernels are not cached, once in each process."""
    if not _WARNED:
        _WARNED.add(path)
        warnings.warn(f"kernels are not cached: {path}: {error}", RuntimeWarning, stacklevel=3)
