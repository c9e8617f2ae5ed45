"""Check of names in a comparison."""

from collections.abc import Iterable

from idyn.errors import ConfigError, nearest


def check_known(where: str, names: Iterable[str], table: Iterable[str]) -> None:
    """Check that all names are in the table. Raises ConfigError, with the path `where`, for the first one that is not."""
    table = list(table)
    for name in names:
        if name not in table:
            raise ConfigError(where, f"unknown name '{name}'{nearest(name, table)}")
