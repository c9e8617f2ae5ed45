"""Check that settings of scenes are finite."""

import numpy as np

from controllers.config.loading import Settings
from idyn.errors import ConfigError


def check_finite(where: str, settings: Settings, *fields: str) -> None:
    """Raise ConfigError for the first of the fields (numbers or tuples of numbers) that is non-finite; None is allowed."""
    for field in fields:
        value = getattr(settings, field)
        if value is not None and not np.isfinite(value).all():
            expected = "a finite number" if isinstance(value, float) else "finite numbers"
            raise ConfigError(f"{where}.{field}", f"expected {expected}, got {value}")
