"""Front end of the build: an LLVM module with a C function for each entry of the library.

Each entry gets a function `int f(void *block)` in numba: it takes its arguments from the block of words that `call.c` fills,
calls the kernel and writes the result behind them. numba compiles it and every kernel that it calls to LLVM modules, with no
machine code on the way: `_keep_module` replaces the end of numba's compilation of a function. The modules are linked once.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import cgutils
from numba.core.callconv import CPUCallConv
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.runtime import rtsys
from numba.core.types.functions import BaseFunction
from numba.extending import intrinsic

from idyn.library.build.numba_mode import WORD, Record, as_numba
from idyn.library.kinds import ArrayKind, Kind, Members, Named, RecordType
from idyn.library.native import symbol_of

MOST_WORDS, MOST_ARRAYS = 200, 64
"""Limits of `call.c` for the arguments of a call; 56 further words are for results."""

MODULES: list[Any] = []
"""LLVM modules of the kernels compiled so far."""


class Entry:
    """An entry of the library. symbol: its name; result: type of its result, see `idyn.library.native`"""

    def __init__(self, kernel: Any, types: tuple[Kind, ...]) -> None:
        self.kernel, self.types = kernel, types
        self.symbol, self.result, self.native = symbol_of(kernel.py_func, types), "n", ""

    def compile(self) -> None:
        """Compile the entry; sets `result` and `native`, the name of the function in its module."""
        flat: list[Any] = []
        names: dict[str, Any] = {"kernel": self.kernel}
        arguments = ", ".join(_spread(each, flat, names) for each in self.types)
        kinds = tuple(map(as_numba, self.types))
        self.kernel.compile(kinds)
        returned = self.kernel.overloads[kinds].signature.return_type
        block = RecordType(f"block of {self.symbol}", {f"a{k}": kind for k, kind in enumerate(flat)})
        self.result = _described(returned)
        if block.size > MOST_WORDS or sum(isinstance(kind, ArrayKind) for kind in flat) > MOST_ARRAYS:
            raise ValueError(f"{self.symbol}: more than {MOST_WORDS} words or {MOST_ARRAYS} arrays, the most of call.c")
        body = f"def body(address):\n    a = as_block(address)\n    store(address, kernel({arguments}))\n    return 1\n"
        names |= {"as_block": _as_block(Record(block)), "store": _store(block.size, returned)}
        exec(body, names)
        function = numba.cfunc(numba.types.intc(numba.types.voidptr), error_model="numpy")(names["body"])
        self.native = function.native_name


def _spread(kind: Kind, flat: list[Any], names: dict[str, Any]) -> str:
    """Return the expression of an argument, with fields a0, a1, … of the block, whose types are appended to `flat`; classes of
    named tuples are added to `names`."""
    if isinstance(kind, Members):
        members = " ".join(_spread(each, flat, names) + "," for each in kind)
        if not isinstance(kind, Named):
            return f"({members})"
        names[kind.source.__name__] = kind.source
        return f"{kind.source.__name__}({members})"
    flat.append(kind)
    return f"a.a{len(flat) - 1}"


def _as_block(kind: Record) -> Callable[..., Any]:
    @intrinsic
    def as_block(_: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return args[0]

        return kind(address), codegen

    return as_block


def _described(kind: Any) -> Any:
    """Return the type of a result as `idyn.library.native` reads it."""
    letters = {numba.float64: "d", numba.int64: "q", numba.boolean: "?", numba.types.none: "n"}
    if isinstance(kind, numba.types.Literal):
        kind = kind.literal_type
    if kind in letters:
        return letters[kind]
    if isinstance(kind, numba.types.Array) and kind.layout == "C":
        return ["A", letters[kind.dtype], kind.ndim]
    if isinstance(kind, numba.types.BaseNamedTuple):
        return [f"{kind.instance_class.__module__}.{kind.instance_class.__qualname__}", *map(_described, kind)]
    if isinstance(kind, numba.types.BaseTuple):
        return ["", *map(_described, kind)]
    raise TypeError(f"an entry returns {kind}, which the library cannot pass to Python")


def _store(first: int, kind: Any) -> Callable[..., Any]:
    """Return a function that writes a result into the block from word `first` on."""

    @intrinsic
    def store(_: Any, address: Any, result: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            words = builder.bitcast(args[0], WORD.as_pointer())
            for k, word in enumerate(_words(context, builder, signature.args[1], args[1])):
                builder.store(word, cgutils.gep_inbounds(builder, words, first + k))
            return context.get_dummy_value()

        return numba.types.none(address, result), codegen

    return store


def _words(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[Any]:
    """Emit the words of a result. The caller owns its arrays: owner, address, shape."""
    if isinstance(kind, numba.types.Array):
        view = context.make_array(kind)(context, builder, value)
        context.nrt.incref(builder, kind, value)
        yield builder.ptrtoint(view.meminfo, WORD)
        yield builder.ptrtoint(view.data, WORD)
        yield from cgutils.unpack_tuple(builder, view.shape, kind.ndim)
    elif isinstance(kind, numba.types.BaseTuple):
        for k, each in enumerate(kind):
            yield from _words(context, builder, each, builder.extract_value(value, k))
    elif kind == numba.float64:
        yield builder.bitcast(value, WORD)
    elif kind != numba.types.none:
        yield builder.zext(value, WORD) if value.type.width < WORD.width else value


@contextmanager
def without_machine_code() -> Iterator[None]:
    """Context in which numba compiles functions to modules only, collected in `MODULES`."""
    patches: tuple[tuple[Any, str, Any], ...] = (
        (JITCodeLibrary, "finalize", _keep_module),
        (JITCodeLibrary, "get_pointer_to_function", lambda library, _: library._ensure_finalized() or 1),
        (JITCodeLibrary, "_optimize_functions", lambda *_: None),
        (CPUContext, "create_cpython_wrapper", lambda *_, **__: None),
        (CPUCallConv, "build_excinfo_struct", lambda _, kind, *__: (kind, None, None)),  # no message, which names a file
        (BaseFunction, "get_call_type", _remembered(BaseFunction.get_call_type)),
        (CPUContext, "get_executable", lambda _, library, *__: library._ensure_finalized() or [].append),  # a new key each time
    )
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    gc.disable()
    try:
        for owner, name, replacement in patches:
            setattr(owner, name, replacement)
        with global_compiler_lock:
            yield
    finally:
        gc.enable()
        for owner, name, before in saved:
            setattr(owner, name, before)


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
    library._raise_if_finalized()
    library._finalized = True
    MODULES.append(library._final_module)


RUN_TIME = """
@PyExc_RuntimeError = internal global ptr null
define void @numba_gil_ensure(ptr %state) { ret void }
define void @numba_gil_release(ptr %state) { ret void }
define ptr @numba_unpickle(ptr %data, i32 %size, ptr %hash) { ret ptr null }
define ptr @numba_runtime_build_excinfo_struct(ptr %data, ptr %more) { ret ptr null }
define void @numba_do_raise(ptr %error) { ret void }
define ptr @PyBytes_FromStringAndSize(ptr %text, i64 %size) { ret ptr null }
define ptr @PyUnicode_FromString(ptr %text) { ret ptr null }
define void @PyErr_WriteUnraisable(ptr %object) { ret void }
define void @PyErr_SetString(ptr %kind, ptr %text) { ret void }
define void @PyErr_Clear() { ret void }
define void @Py_DecRef(ptr %object) { ret void }
define void @NRT_Free(ptr %block) { ret void }
"""
"""What a function `int f(void *)` of numba does with an exception: nothing here, it returns 0."""

COUNT = """
declare void @count_NAME(ptr)
define void @NAME(ptr %block) {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  call void @count_NAME(ptr %block)
  br label %end
end:
  ret void
}
"""
"""A count of references, inlined at the end of the build: arrays of records and on the stack have no count, and their callers
know. numba's own function, here `count_NAME`, is never inlined."""

COUNTS = ("NRT_incref", "NRT_decref")


def linked(entries: list[Entry]) -> Any:
    """Return one module of all compiled, in which the entries have their symbols and everything else is internal."""
    counting, own = str(rtsys.library._final_module), RUN_TIME
    for name in COUNTS:
        counting, own = counting.replace(f"@{name}(", f"@count_{name}("), own + COUNT.replace("NAME", name)
    modules = list(dict.fromkeys([*MODULES, llvm.parse_assembly(counting), llvm.parse_assembly(own)]))
    for module in modules:
        for function in module.functions:
            if not function.is_declaration and function.linkage in (llvm.Linkage.external, llvm.Linkage.linkonce_odr):
                function.linkage = "weak_odr"
    while len(modules) > 1:  # in pairs: one after the other would copy the whole again and again
        pairs = zip(modules[::2], modules[1::2], strict=False)
        modules = [_joined(a, b) for a, b in pairs] + modules[len(modules) // 2 * 2 :]
    whole, kept = modules[0], {each.native: each.symbol for each in entries}
    for function in whole.functions:
        if function.is_declaration:
            continue
        if function.name in kept:
            function.name, function.linkage = kept[function.name], "external"
        else:
            function.linkage = "internal"
    return whole


def _joined(a: Any, b: Any) -> Any:
    a.link_in(b)
    return a
