"""Views of Pinocchio's arrays: joint placements, inertias, memory and addresses."""

from typing import Any

import numpy as np

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


def placements_of(data: Any) -> Array:
    """Return a view of the joint placements of a `pin.Data` (njoints, 12), see `idyn.types.Kinematics`."""
    n, first = len(data.oMi), data.oMi[0].rotation
    stride = address(data.oMi[1].rotation) - address(first)
    placements = np.lib.stride_tricks.as_strided(first.T, (n, 12), (stride, 8))
    for seen, own in zip(parts(placements), ("rotation", "translation"), strict=True):
        assert all(address(getattr(data.oMi[i], own)) == address(seen[i]) for i in range(n))
    assert placements.flags.c_contiguous
    return placements


def inertias_of(data: Any) -> Array:
    """Return a view of the composite inertias of a `pin.Data` without their masses (njoints, 9), see
    `Robot.inverse_dynamics_slopes`."""
    own = data.oYcrb
    first, stride, n = own[0].lever, address(own[1].lever) - address(own[0].lever), len(own)
    inertias: Array = np.lib.stride_tricks.as_strided(first, (n, 9), (stride, 8))
    own[n - 1].inertia = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    assert inertias[n - 1, 3:].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert all(address(own[i].lever) == address(inertias[i]) for i in range(n))
    return inertias
