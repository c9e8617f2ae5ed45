"""What kernels call by name and numba replaces: kernels chosen by the type of a record, and arrays on the stack."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from idyn.library.records import ArrayRecord

R = TypeVar("R", bound=ArrayRecord)


def python_of(kernel: Any) -> Any:
    """Return the Python function of a kernel of numba; a plain function is returned as it is."""
    return getattr(kernel, "py_func", kernel)


def stack_array(shape: Any, kind: Any = np.float64) -> Any:
    """Return `np.empty(shape, kind)`, in the stack frame of the calling kernel if the array is small.

    kind: np.float64, np.int64 or np.bool_

    The array is valid during this call of the kernel: never return it, a view of it or a record that contains it. Never call
    this function in a loop: each call takes stack.
    """
    return np.empty(shape, kind)


class Dispatch:
    """Kernels by record type, called as one function `stub(problem, record, basis, rung)` in kernels and in Python."""

    def __init__(self) -> None:
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._records: dict[tuple[Any, Callable[..., Any]], Any] = {}

    def record_for(self, base: type[R], kernel: Callable[..., Any]) -> type[R]:
        """Return the subclass of the record class `base` whose type selects `kernel`."""
        known: type[R] | None = self._records.get((base, kernel))
        if known is None:
            function = python_of(kernel)
            name = f"{base.__name__}[{function.__module__}.{function.__name__}]"
            known = self._records[base, kernel] = type(name, (base,), {"__module__": base.__module__})
            self._kernels[known.TYPE.name] = kernel
        return known

    def kernel(self, kind: Any) -> Callable[..., Any]:
        """Return the kernel that the type of a record selects. A type of another process imports its module."""
        if kind.name not in self._kernels:
            module, _, name = kind.name.partition("[")[2].rstrip("]").rpartition(".")
            self._kernels[kind.name] = getattr(import_module(module), name)
        return self._kernels[kind.name]


LAWS = Dispatch()


def attempt(problem: Any, law: Any, basis: Any, rung: int) -> Any:
    """Run rung (solver attempt) number `rung` of a law by the kernel that its record selects; see `idyn.laws.law.Attempt`."""
    return python_of(LAWS.kernel(law.TYPE if isinstance(law, ArrayRecord) else law.kind))(problem, law, basis, rung)
