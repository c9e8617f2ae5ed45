"""Names in a comparison that have to exist."""

from collections.abc import Iterable

from idyn.errors import ConfigError, nearest


def check_known(where: str, names: Iterable[str], table: Iterable[str]) -> None:
    """Raises ConfigError for the first of the names that is not in the table."""
    table = list(table)
    for name in names:
        if name not in table:
            raise ConfigError(where, f"there is no '{name}'{nearest(name, table)}")
