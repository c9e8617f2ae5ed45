"""Contact laws, one file each; their names and settings are in `idyn.laws.settings`."""

from functools import cache
from typing import Any

from idyn.errors import ConfigError, nearest
from idyn.laws.law import Law
from idyn.laws.settings import LAWS

__all__ = ["LAWS", "law_of", "make_law"]


def make_law(kind: str, **settings: Any) -> Law:
    """Return the law `kind` (a key of `LAWS`) with the given settings, as in `make_law("coulomb", edges=8)`.

    Raises ConfigError for an unknown kind, naming similar ones, and for invalid settings.
    """
    if kind not in LAWS:
        raise ConfigError("law", f"no law named '{kind}'{nearest(kind, LAWS)}; the laws are {', '.join(LAWS)}")
    return LAWS[kind](**settings).build()


def law_of(law: Law | str) -> Law:
    """Return a law; for a name, the law of that name with default settings. Raises ConfigError for an unknown name."""
    return _with_defaults(law) if isinstance(law, str) else law


@cache
def _with_defaults(kind: str) -> Law:
    return make_law(kind)
