"""What the ground under a controller is taken for: one word, and the numbers it stands for.

Every real floor and foot yields a little, and so does every simulator's but the law's own. `yielding` keeps robots upright on
soft, firm and stiff ground alike; `rigid` is the law to the letter, for ground that is.
"""

from typing import Literal

from controllers.config import NonNegative, Settings
from idyn.errors import ConfigError
from idyn.ground import Ground


class GroundSettings(Settings, frozen=True):
    """`[ground]` of a controller. Numbers that are left out are those that `kind` stands for (`PRESETS`).

    kind: 'yielding' or 'rigid'
    relaxation, memory: T_r and T_p of `idyn.ground.Ground` [s]
    horizon: the period that predictions look ahead [s]; 0: the control period. Longer ones see gaps close earlier, and treat
        contact velocities as a relaxation of the same time would
    gap_noise, recovery_speed, touching: `noise`, `recovery_speed` and `touching` of `idyn.ground.Ground` [m], [m/s], [m]
    """

    kind: Literal["yielding", "rigid"] = "yielding"
    relaxation: NonNegative | None = None
    memory: NonNegative | None = None
    horizon: NonNegative = 0.0
    gap_noise: NonNegative | None = None
    recovery_speed: NonNegative | None = None
    touching: NonNegative | None = None


PRESETS = {
    "yielding": Ground(noise=0.0, recovery_speed=0.0, touching=3e-4, relaxation=0.05, memory=0.005, independent=1e-2),
    "rigid": Ground(noise=1e-5, recovery_speed=0.05, touching=1e-4, relaxation=0.0, memory=0.0),
}


def make_ground(settings: GroundSettings) -> Ground:
    """The numbers of a controller's ground. Raises ConfigError."""
    preset = PRESETS[settings.kind]
    if settings.kind == "rigid" and (settings.relaxation or settings.memory):
        raise ConfigError("ground.kind", "expected 'yielding' with a relaxation or a memory, got 'rigid'")

    def chosen(value: float | None, default: float) -> float:
        return default if value is None else value

    return Ground(
        noise=chosen(settings.gap_noise, preset.noise),
        recovery_speed=chosen(settings.recovery_speed, preset.recovery_speed),
        touching=chosen(settings.touching, preset.touching),
        relaxation=chosen(settings.relaxation, preset.relaxation),
        memory=chosen(settings.memory, preset.memory),
        independent=preset.independent,
    )
