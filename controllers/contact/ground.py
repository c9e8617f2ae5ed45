"""What the ground under a controller is taken for: one word, and the numbers it stands for.

Every real floor and foot yields a little, and so does every simulator's but the law's own. `yielding` keeps robots upright on
soft, firm and stiff ground alike; `rigid` is the law to the letter, for ground that is.
"""

from controllers.config.loading import Kind, NonNegative
from idyn.contact.ground import Ground


class GroundSettings(Kind, frozen=True):
    """Base of `[ground]` of a controller.

    horizon: the period that predictions look ahead [s]; 0: the control period. Longer ones see gaps close earlier, and treat
        contact velocities as a relaxation of the same time would
    """

    horizon: NonNegative = 0.0

    def build(self) -> Ground:
        """The numbers of the ground."""
        raise NotImplementedError


class YieldingSettings(GroundSettings, frozen=True, tag="yielding"):
    """relaxation, memory: T_r and T_p of `idyn.contact.ground.Ground` [s]
    gap_noise, recovery_speed, touching: `noise`, `recovery_speed` and `touching` of it [m], [m/s], [m]
    """

    relaxation: NonNegative = 0.05
    memory: NonNegative = 0.005
    gap_noise: NonNegative = 0.0
    recovery_speed: NonNegative = 0.0
    touching: NonNegative = 3e-4

    def build(self) -> Ground:
        return Ground(
            noise=self.gap_noise,
            recovery_speed=self.recovery_speed,
            touching=self.touching,
            relaxation=self.relaxation,
            memory=self.memory,
            independent=1e-2,
        )


class RigidSettings(GroundSettings, frozen=True, tag="rigid"):
    """gap_noise, recovery_speed, touching: `noise`, `recovery_speed` and `touching` of `idyn.contact.ground.Ground` [m], [m/s],
    [m]"""

    gap_noise: NonNegative = 1e-5
    recovery_speed: NonNegative = 0.05
    touching: NonNegative = 1e-4

    def build(self) -> Ground:
        return Ground(
            noise=self.gap_noise, recovery_speed=self.recovery_speed, touching=self.touching, relaxation=0.0, memory=0.0
        )


AnyGround = YieldingSettings | RigidSettings
"""`[ground]` of a controller."""
