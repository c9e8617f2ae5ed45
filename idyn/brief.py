"""Short representations of arrays and records, for `repr`."""

from collections.abc import Mapping

import numpy as np

WIDTH = 60
"""Maximum number of characters of a text, or of the entries of a tuple."""


def brief(value: object) -> str:
    """Return a short representation: the shape of an array, the beginning of a text or tuple, the size of a mapping."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    if type(value) is str:
        return repr(value if len(value) <= WIDTH else f"{value[:WIDTH]}…")
    return str(value)


def _tuple(entries: tuple[object, ...]) -> str:
    """Return the entries of a tuple, as many as fit into `WIDTH` characters."""
    shown: list[str] = []
    for entry in entries:
        text = brief(entry)
        if shown and sum(map(len, shown)) + len(text) > WIDTH:
            shown.append(f"… {len(entries)} in all")
            break
        shown.append(text)
    return f"({', '.join(shown)})"


def span(values: np.ndarray) -> str:
    """Return the range of an array, such as `0.5…0.8`, or its value if all are equal."""
    if not np.size(values):
        return "-"
    low, high = f"{np.min(values):.3g}", f"{np.max(values):.3g}"
    return low if low == high else f"{low}…{high}"


def norm(vector: np.ndarray) -> str:
    """Return ‖vector‖ with three digits."""
    return f"{np.linalg.norm(vector):.3g}"
