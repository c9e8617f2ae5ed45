"""Settings of the contact compliance model, `[ground]`.

Real floors and feet are compliant, and so is the ground of every simulator except those with rigid contact. `yielding` keeps
robots upright on soft, firm and stiff ground. `rigid` applies the contact law literally, for rigid ground.
"""

from controllers.config.loading import Kind, NonNegative
from idyn.contact.ground import Ground

YIELDING, RIGID = Ground(), Ground.rigid()


class GroundSettings(Kind, frozen=True):
    """Base of the settings `[ground]`.

    horizon: period of the prediction [s]; 0: the control period. With a longer one gaps close earlier, and contact velocities
        decay as with a relaxation time of the same length
    drift: whether the law includes J̇ v, by which the robot's own motion changes contact velocities; false: as in the paper
    """

    horizon: NonNegative = 0.0
    drift: bool = True

    def build(self) -> Ground:
        """Return the parameters of the ground."""
        raise NotImplementedError


class YieldingSettings(GroundSettings, frozen=True, tag="yielding"):
    """Compliant ground.

    relaxation, memory: T_r and T_p of `idyn.contact.ground.Ground` [s]. T_r is 1.5/K_d for the default K_d of `[feedback]`
    gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of `Ground`
    """

    relaxation: NonNegative = 0.025
    memory: NonNegative = YIELDING.memory
    gap_noise: NonNegative = YIELDING.noise
    recovery_speed: NonNegative = YIELDING.recovery_speed
    touching: NonNegative = YIELDING.touching

    def build(self) -> Ground:
        return Ground(
            noise=self.gap_noise,
            recovery_speed=self.recovery_speed,
            touching=self.touching,
            relaxation=self.relaxation,
            memory=self.memory,
            drift=self.drift,
        )


class RigidSettings(GroundSettings, frozen=True, tag="rigid"):
    """Rigid ground.

    gap_noise, recovery_speed, touching: `noise` [m], `recovery_speed` [m/s] and `touching` [m] of `idyn.contact.ground.Ground`
    """

    gap_noise: NonNegative = RIGID.noise
    recovery_speed: NonNegative = RIGID.recovery_speed
    touching: NonNegative = RIGID.touching

    def build(self) -> Ground:
        given = {"noise": self.gap_noise, "recovery_speed": self.recovery_speed, "touching": self.touching}
        return Ground.rigid(**given, drift=self.drift)


AnyGround = YieldingSettings | RigidSettings
"""Type of `[ground]` in a controller's file."""
