"""Contact laws, one file each; `idyn.laws.settings` has the table that names them."""

from typing import Any

from idyn.errors import ConfigError, nearest
from idyn.laws.law import Law
from idyn.laws.settings import LAWS

__all__ = ["LAWS", "make_law"]


def make_law(kind: str, **settings: Any) -> Law:
    """The law of that kind with settings of its own, as in `make_law("coulomb", edges=8)`.

    Raises ConfigError naming the nearest kinds, and for values that make no law.
    """
    if kind not in LAWS:
        raise ConfigError("law", f"no law named '{kind}'{nearest(kind, LAWS)}; the laws are {', '.join(LAWS)}")
    return LAWS[kind](**settings).build()
