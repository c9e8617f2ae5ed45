"""Front end of the build: LLVM modules of kernels, and of a C function for each entry of the library.

An entry is a function `int f(void *block)`: it takes its arguments from the block of words that `call.c` fills, calls the
kernel and writes the result behind them; it returns 0 if the kernel failed. numba compiles kernels and those that they call to
LLVM modules, with no machine code on the way: `_keep_module` replaces the end of numba's compilation of a function.
"""

import gc
from collections.abc import Iterator
from itertools import count
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.callconv import CPUCallConv
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.types.functions import BaseFunction
from numba.np.numpy_support import as_dtype

from idyn.library.build.numba_mode import WORD, as_numba, places, read, write

MODULES: list[Any] = []
"""LLVM modules of the kernels and entries compiled so far."""


@global_compiler_lock
def compile_entry(kernel: Any, kinds: tuple[Any, ...], symbol: str) -> Any:
    """Compile a kernel for arguments of these types, and the entry that calls it. Return the kind of its result, see `_kind` of
    `idyn.library.kernels`."""
    types = tuple(map(as_numba, kinds))
    kernel.compile(types)
    found = kernel.overloads[types]
    context, returned = found.target_context, found.signature.return_type
    module = context.create_module(symbol)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [cgutils.voidptr_t]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    indices = count(1)
    place = places(builder, function.args[0], indices)
    arguments = [read(context, builder, each, place) for each in types]
    callee = context.declare_function(module, found.fndesc)
    status, value = context.call_conv.call_function(builder, callee, returned, types, arguments)
    kind = _write_result(context, builder, returned, value, place)
    builder.ret(builder.zext(status.is_ok, ir.IntType(32)))
    MODULES.append(llvm.parse_assembly(str(module)))
    if next(indices) > 256:
        raise ValueError(f"{symbol}: the arguments and the result of a call are more than the 256 words of call.c")
    return kind


def _write_result(context: Any, builder: Any, kind: Any, value: Any, place: Iterator[Any]) -> Any:
    """Emit stores of a result to the next places, return its kind. An array, which the caller owns, is a tuple of its owner,
    address and shape, whose name is the letter of its numbers."""
    kind = numba.types.unliteral(kind)
    if kind == numba.types.none:
        return "n"
    if isinstance(kind, numba.types.BaseTuple):
        source = getattr(kind, "instance_class", None)
        members = ((each, builder.extract_value(value, k)) for k, each in enumerate(kind))
        name = f"{source.__module__}.{source.__name__}" if source else ""
        return [name, *(_write_result(context, builder, *each, place) for each in members)]
    if isinstance(kind, numba.types.Array) and kind.layout == "C":
        builder.store(builder.ptrtoint(context.make_array(kind)(context, builder, value).meminfo, WORD), next(place))
        write(context, builder, kind, value, place)
        return [as_dtype(kind.dtype).char, *"ll", *"l" * kind.ndim]
    if isinstance(kind, numba.types.Number | numba.types.Boolean):
        write(context, builder, kind, value, place)
        return as_dtype(kind).char
    raise TypeError(f"an entry returns {kind}, which the library cannot pass to Python")


def keep_modules() -> None:
    """Let numba compile the functions of this process to modules only, collected in `MODULES`."""
    gc.disable()
    for owner, name, replacement in (
        (JITCodeLibrary, "finalize", _keep_module),
        (JITCodeLibrary, "_optimize_functions", lambda *_: None),
        (CPUContext, "create_cpython_wrapper", lambda *_, **__: None),
        (CPUCallConv, "build_excinfo_struct", lambda _, kind, *__: (kind, None, None)),  # no message, which names a file
        (BaseFunction, "get_call_type", _remembered(BaseFunction.get_call_type)),
        (CPUContext, "get_executable", lambda _, library, *__: library._ensure_finalized() or [].append),  # a new key each time
    ):
        setattr(owner, name, replacement)


def _remembered(resolve: Any) -> Any:
    """Return numba's resolution of a call with a memory: a quarter of type inference repeats itself."""
    known: dict[Any, tuple[Any, Any]] = {}

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        key = id(function), args, tuple(kws.items())
        if key not in known:
            known[key] = function, resolve(function, context, args, kws)
        return known[key][1]

    return get_call_type


def _keep_module(library: Any) -> None:
    library._finalized = True
    MODULES.append(library._final_module)
