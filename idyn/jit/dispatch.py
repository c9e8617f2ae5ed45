"""Compiled functions that are chosen by the type of a record: a caller is compiled once for each type."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.extending import overload

from idyn.jit.cache import content_digest, module_root
from idyn.jit.records import ArrayRecord
from idyn.jit.stand_ins import compile_here
from idyn.jit.twins import has_twin, twin

R = TypeVar("R", bound=ArrayRecord)


class Dispatch:
    """Kernels by record type, called as one function `stub(problem, record, basis, rung)` in compiled code and in Python."""

    def __init__(self) -> None:
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._records: dict[tuple[Any, Callable[..., Any]], Any] = {}

    def record_for(self, base: type[R], kernel: Callable[..., Any]) -> type[R]:
        """Return the subclass of the record class `base` whose type selects `kernel`.

        Its name contains the digest of the kernel's sources, so callers compiled for it are recompiled when they change. With a
        kernel of another package this process compiles its kernels itself: no other one needs to find that package.
        """
        known: type[R] | None = self._records.get((base, kernel))
        if known is None:
            if hasattr(kernel, "py_func") and not has_twin(kernel):
                compile_here()
            code, module = kernel.__code__, kernel.__module__
            path = Path(code.co_filename)
            name = f"{base.__name__}[{module}.{kernel.__name__}@{content_digest(path, module_root(path, module))}]"
            known = self._records[base, kernel] = type(name, (base,), {"__module__": base.__module__})
            self._kernels[known.TYPE.name] = kernel
        return known

    def kernel(self, kind: Any) -> Callable[..., Any]:
        """Return the kernel that the compiled type of a record selects. A type of another process imports its module."""
        if kind.name not in self._kernels:
            module, _, name = kind.name.partition("[")[2].partition("@")[0].rpartition(".")
            self._kernels[kind.name] = getattr(import_module(module), name)
        return self._kernels[kind.name]


LAWS = Dispatch()


def attempt(problem: Any, law: Any, basis: Any, rung: int) -> Any:
    """Run rung (solver attempt) number `rung` of a law by the kernel that its record selects; see `idyn.laws.law.Attempt`."""
    return twin(LAWS.kernel(law.TYPE))(problem, law, basis, rung)


if not numba.config.DISABLE_JIT:

    @overload(attempt)
    def _attempt(problem: Any, law: Any, basis: Any, rung: Any) -> Callable[..., Any]:
        kernel = LAWS.kernel(law)

        def call(problem: Any, law: Any, basis: Any, rung: Any) -> Any:
            return kernel(problem, law, basis, rung)

        return call
