"""Equal to the last bit."""

import numpy as np

from idyn.types import Guess


def assert_same(one, other):
    """Two predictions, guesses and all."""
    for field in one.__struct_fields__:
        a, b = getattr(one, field), getattr(other, field)
        if isinstance(a, Guess):
            assert_same(a, b)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes(), field
        else:
            assert a == b, field
