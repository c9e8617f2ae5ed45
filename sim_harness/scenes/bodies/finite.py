"""Settings of scenes whose numbers have to be finite."""

import numpy as np

from controllers.config.loading import Settings
from idyn.errors import ConfigError


def check_finite(where: str, settings: Settings, *fields: str) -> None:
    """Raises ConfigError naming the first of these fields, numbers or tuples of them, that is not finite; None is skipped."""
    for field in fields:
        value = getattr(settings, field)
        if value is not None and not np.isfinite(value).all():
            expected = "a finite number" if isinstance(value, float) else "finite numbers"
            raise ConfigError(f"{where}.{field}", f"expected {expected}, got {value}")
