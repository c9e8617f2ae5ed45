"""Long compiled functions stay outside of those that call them.

numba copies into a function all that it calls, and what that calls, and compiles the copies again: what is five calls deep is
compiled six times. LLVM makes short ones part of their caller, which is worth a copy; long ones it leaves as they are. So a
long one is a declaration for its callers, of a name that is the same in every process, and its address is looked up when they
are made ready. A caller that is read from the disk says what has to be there before.
"""

import hashlib
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

import llvmlite.binding as llvm

LONG = 400
"""Bytecode of so many bytes is long: some fifteen lines. From 200 to 700 it makes no difference to how long kernels take to
compile or to run."""

NOTHING = llvm.parse_assembly("")


class Needed(NamedTuple):
    """A kernel that others call; called by numba before it makes one of those ready that it has read from the disk."""

    module: str
    name: str
    types: tuple[Any, ...]

    def __call__(self) -> None:
        """Reads the kernel from the disk, or compiles it, if it is not there yet."""
        kernel = getattr(import_module(self.module), self.name)
        if self.types not in kernel.overloads:
            kernel.compile(self.types)

    def symbol(self) -> str:
        """By what name it is found."""
        return f"{self.module}.{self.name}.{hashlib.sha256(str(self.types).encode()).hexdigest()[:16]}"


class Outside:
    """What callers link instead of a copy, in the place of one of numba's libraries: nothing, but it tells what they need."""

    def __init__(self, needed: Needed) -> None:
        self._reload_init = {needed}

    def _ensure_finalized(self) -> None:
        """It is."""

    def _get_module_for_linking(self) -> Any:
        return NOTHING


def leave_outside(kernel: Any) -> None:
    """From now on, if a kernel is long; and a short one tells its callers what it needs itself, also when it was read."""
    function, add = kernel.py_func, kernel.add_overload
    long = len(function.__code__.co_code) >= LONG

    def add_overload(result: Any) -> None:
        add(result)
        library, described, target = result.library, result.fndesc, result.target_context
        library._reload_init.update(result.reload_init)  # numba forgets this of what it reads
        if not long:
            return
        needed = Needed(function.__module__, function.__qualname__, result.signature.args)
        llvm.add_symbol(needed.symbol(), library.get_pointer_to_function(described.llvm_func_name))
        declared = copy(described)
        declared.mangled_name = needed.symbol()
        target.remove_user_function(result.entry_point)
        target.insert_user_function(result.entry_point, declared, [Outside(needed)])

    kernel.add_overload = add_overload
