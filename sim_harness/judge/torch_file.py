"""Reading one tensor from a file of `torch.save` without PyTorch. Nothing in the file is executed.

The file is a zip archive: a pickle that describes the tensor, `NAME/data.pkl`, and its numbers, `NAME/data/KEY`.
"""

import pickle
import zipfile
from collections import OrderedDict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from idyn.errors import InputError
from idyn.types import Array

TYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "IntStorage": "<i4", "LongStorage": "<i8"}
"""Storage type of PyTorch → type of its numbers."""


class _Reader(pickle.Unpickler):
    """Unpickler that knows tensors, and refuses all other classes and functions."""

    archive: zipfile.ZipFile
    folder: str

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in TYPES:
            return TYPES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        raise pickle.UnpicklingError(f"expected a tensor, got {module}.{name}")

    def persistent_load(self, pid: Any) -> Array:
        _, kind, key, _, count = pid
        found = np.frombuffer(self.archive.read(f"{self.folder}/data/{key}"), dtype=kind)
        if len(found) != count:
            raise pickle.UnpicklingError(f"expected {count} numbers, got {len(found)}")
        return found


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Array:
    """Return a tensor as an array of its own."""
    numbers = storage[offset:]
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    stretched = prod(shape) > len(numbers)  # a stride of 0 would repeat numbers without bound
    if min((*shape, *strides, offset), default=0) < 0 or stretched or (0 not in shape and last >= len(numbers)):
        raise pickle.UnpicklingError(f"expected numbers for the shape {shape}")
    steps = [stride * numbers.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=False).copy()


def read_tensor(path: Path) -> Array:
    """Return the tensor of a file. Raises InputError for anything else, and for files older than PyTorch 1.6."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(name) as file:
                reader = _Reader(file)
                reader.archive, reader.folder = archive, name.removesuffix("/data.pkl")
                found = reader.load()
    except Exception as error:  # a pickle of a foreign file may raise anything
        raise InputError(str(path), f"expected a tensor of torch.save, PyTorch 1.6 or later ({error!r})") from error
    if not isinstance(found, np.ndarray):
        raise InputError(str(path), f"expected a tensor, got {type(found).__name__}")
    return found
