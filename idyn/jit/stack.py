"""Arrays in a kernel's stack frame."""

from typing import Any

import numba
import numpy as np
from numba.core import cgutils
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic, overload
from numba.np.numpy_support import as_dtype

from idyn.jit.mode import PLAIN

SMALL = 8192
"""Maximum size of an array on the stack; larger arrays are on the heap [bytes]."""


def stack_array(shape: Any, kind: Any = np.float64) -> Any:
    """Return `np.empty(shape, kind)`, in the stack frame of the calling kernel if the array is small.

    kind: np.float64, np.int64 or np.bool_

    The array is valid during this call of the kernel: never return it, a view of it or a record that contains it. Never call
    this function in a loop: each call takes stack.
    """
    return np.empty(shape, kind)


@intrinsic
def _alloca_array(_: Any, shape: Any, kind: Any) -> Any:
    one, number = isinstance(shape, numba.types.Integer), kind.dtype
    array = numba.types.Array(number, 1 if one else len(shape), "C")

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        from numba.np.arrayobj import populate_array  # noqa: PLC0415  (private)

        extents = [args[0]] if one else cgutils.unpack_tuple(builder, args[0])
        item = context.get_constant(numba.intp, as_dtype(number).itemsize)
        strides = [item]
        for extent in reversed(extents):
            strides.append(builder.mul(strides[-1], extent))
        size, counted = strides.pop(), cgutils.alloca_once(builder, cgutils.voidptr_t)
        data = cgutils.alloca_once(builder, cgutils.voidptr_t)
        with builder.if_else(builder.icmp_unsigned("<=", size, size.type(SMALL))) as (small, large):
            with small:
                block = builder.alloca(cgutils.int8_t, size=size)
                block.align = 16
                builder.store(block, data)
                builder.store(cgutils.get_null_value(cgutils.voidptr_t), counted)
            with large:
                owner = context.nrt.meminfo_alloc_aligned(builder, size, context.get_constant(numba.uint32, 16))
                builder.store(context.nrt.meminfo_data(builder, owner), data)
                builder.store(owner, counted)
        view = context.make_array(array)(context, builder)
        populate_array(
            view,
            data=builder.bitcast(builder.load(data), view.data.type),
            shape=extents,
            strides=strides[::-1],
            itemsize=item,
            meminfo=builder.load(counted),
        )
        return impl_ret_new_ref(context, builder, array, view._getvalue())

    return array(shape, kind), codegen


@overload(stack_array, inline="always")
def _on_stack(shape: Any, kind: Any = np.float64) -> Any:
    def on_stack(shape: Any, kind: Any = np.float64) -> Any:
        return _alloca_array(shape, kind)

    def on_heap(shape: Any, kind: Any = np.float64) -> Any:
        return np.empty(shape, kind)

    return on_heap if PLAIN else on_stack
