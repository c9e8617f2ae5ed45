"""Settings of the contact compliance model, `[ground]`.

Real floors and feet are compliant, and so is the ground of every simulator except those with rigid contact. `yielding` keeps
robots upright on soft, firm and stiff ground. `rigid` applies the contact law literally, for rigid ground.
"""

from controllers.config.loading import Kind, NonNegative
from idyn.contact.ground import Ground


class GroundSettings(Kind, frozen=True):
    """Base of the settings `[ground]`.

    horizon: period of the prediction [s]; 0: the control period. With a longer one gaps close earlier, and contact velocities
        decay as with a relaxation time of the same length
    """

    horizon: NonNegative = 0.0

    def build(self) -> Ground:
        """Return the parameters of the ground."""
        raise NotImplementedError


class YieldingSettings(GroundSettings, frozen=True, tag="yielding"):
    """Compliant ground.

    relaxation, memory: T_r and T_p of `idyn.contact.ground.Ground` [s]
    gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of `Ground`
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
    """Rigid ground.

    gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of `idyn.contact.ground.Ground`
    """

    gap_noise: NonNegative = 1e-5
    recovery_speed: NonNegative = 0.05
    touching: NonNegative = 1e-4

    def build(self) -> Ground:
        return Ground(
            noise=self.gap_noise, recovery_speed=self.recovery_speed, touching=self.touching, relaxation=0.0, memory=0.0
        )


AnyGround = YieldingSettings | RigidSettings
"""Type of `[ground]` in a controller's file."""
