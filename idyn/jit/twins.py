"""Kernels as plain Python functions that call plain Python functions: what `NUMBA_DISABLE_JIT=1` runs, kernel by kernel.

A kernel's Python function (`py_func`) calls other kernels by names of its module. Its twin runs the same code in a copy of the
module in which these names are twins. numba takes the names of a kernel's module as constants, so the copy does not age.
"""

import sys
import threading
from types import FunctionType, ModuleType
from typing import Any

PACKAGE = "idyn"
"""Package whose kernels have twins."""

_COPIES: dict[str, ModuleType] = {}
_LOCK = threading.RLock()


def twin(kernel: Any) -> Any:
    """Return the kernel as a Python function that calls no compiled code; a plain function is returned as it is."""
    if not hasattr(kernel, "py_func"):
        return kernel
    with _LOCK:
        return getattr(_copy(kernel.py_func.__module__), kernel.py_func.__name__)


def has_twin(kernel: Any) -> bool:
    """Return whether a kernel is a function at the top of a module of idyn."""
    function = kernel.py_func
    at_top = function.__closure__ is None and function.__qualname__ == function.__name__
    return at_top and _is_own(function.__module__)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _copy(name: str) -> ModuleType:
    """Return the copy of a module of idyn in which kernels are Python functions and modules of idyn are such copies."""
    if name not in _COPIES:
        _COPIES[name] = copy = ModuleType(name)  # kept before it is filled: modules may import each other
        for key, value in list(vars(sys.modules[name]).items()):
            vars(copy)[key] = _replaced(value)
    return _COPIES[name]


def _replaced(value: Any) -> Any:
    if isinstance(value, ModuleType) and _is_own(value.__name__):
        return _copy(value.__name__)
    function = getattr(value, "py_func", None)
    if not isinstance(function, FunctionType) or not has_twin(value):
        return value
    names = vars(_copy(function.__module__))
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)
