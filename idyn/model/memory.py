"""Views of Pinocchio's arrays: parts of joint placements, memory and addresses."""

from idyn.types import Array


def parts(placements: Array) -> tuple[Array, Array]:
    """Return rotations (njoints, 3, 3) and origins (njoints, 3) of placements (njoints, 12)."""
    return placements[:, :9].reshape(-1, 3, 3).transpose(0, 2, 1), placements[:, 9:]


def memory(array: Array) -> memoryview:
    """Return the memory of a contiguous array."""
    return memoryview(array.data).cast("B")


def address(view: Array) -> int:
    """Return the address of an array's first element."""
    return int(view.__array_interface__["data"][0])
