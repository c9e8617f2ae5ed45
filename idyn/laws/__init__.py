"""Contact laws, one file each; their names and settings are in `idyn.laws.settings`."""

from typing import Any

from idyn.errors import ConfigError, nearest
from idyn.laws.law import Law
from idyn.laws.settings import LAWS

__all__ = ["LAWS", "make_law"]


def make_law(kind: str, **settings: Any) -> Law:
    """Return the law `kind` (a key of `LAWS`) with the given settings, as in `make_law("coulomb", edges=8)`.

    Raises ConfigError for an unknown kind, naming similar ones, and for invalid settings.
    """
    if kind not in LAWS:
        raise ConfigError("law", f"no law named '{kind}'{nearest(kind, LAWS)}; the laws are {', '.join(LAWS)}")
    return LAWS[kind](**settings).build()
