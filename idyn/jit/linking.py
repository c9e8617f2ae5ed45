"""Linking of long kernels by symbol: their code is not copied into the kernels that call them.

numba copies every callee, with its own callees, into a kernel and compiles the copies again: a function five calls deep is
compiled six times. For long functions the caller contains a declaration only: a symbol that is the same in every process. Its
address is looked up when the caller is linked. A caller that is read from the disk names the symbols that must exist first.
"""

import hashlib
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

import llvmlite.binding as llvm

LONG = 400
"""Length of bytecode from which a function is long [bytes]: about fifteen lines. Between 200 and 700 neither compile time nor
speed changes."""

NOTHING = llvm.parse_assembly("")


class Needed(NamedTuple):
    """A long kernel that other kernels call. numba calls this object before it links a caller that was read from the disk."""

    module: str
    name: str
    types: tuple[Any, ...]

    def __call__(self) -> None:
        """Load the kernel from the disk or compile it, unless it is loaded."""
        kernel = getattr(import_module(self.module), self.name)
        if self.types not in kernel.overloads:
            kernel.compile(self.types)

    def symbol(self) -> str:
        """Return the name of the linked symbol."""
        return f"{self.module}.{self.name}.{hashlib.sha256(str(self.types).encode()).hexdigest()[:16]}"


class Outside:
    """Replacement for numba's library of a long kernel: callers link an empty module and record that they need the kernel."""

    def __init__(self, needed: Needed) -> None:
        self._reload_init = {needed}

    def _ensure_finalized(self) -> None:
        """Do nothing: the empty module needs no finalisation."""

    def _get_module_for_linking(self) -> Any:
        return NOTHING


def leave_outside(kernel: Any) -> None:
    """Link a long kernel by symbol from now on. For a short kernel, callers inherit the list of long kernels that it needs."""
    function, add = kernel.py_func, kernel.add_overload
    long = len(function.__code__.co_code) >= LONG

    def add_overload(result: Any) -> None:
        add(result)
        library, described, target = result.library, result.fndesc, result.target_context
        library._reload_init.update(result.reload_init)  # numba omits this for kernels read from the disk
        if not long:
            return
        needed = Needed(function.__module__, function.__qualname__, result.signature.args)
        llvm.add_symbol(needed.symbol(), library.get_pointer_to_function(described.llvm_func_name))
        declared = copy(described)
        declared.mangled_name = needed.symbol()
        target.remove_user_function(result.entry_point)
        target.insert_user_function(result.entry_point, declared, [Outside(needed)])

    kernel.add_overload = add_overload
