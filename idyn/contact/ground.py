"""Contact compliance model of ground that yields: noise of gaps, relaxation of contact velocities, memory of contact forces
(MATHEMATICS §2). Every law except `sap`, which has its own material, applies to v̂ instead of v⁺. The first prediction has
no last impulses and is made with T_p = 0; a new contact begins with p⁻ = 0."""

from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from idyn.errors import InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector, written
from idyn.types import Array, Record


class Ground(Record, frozen=True):
    """Contact compliance model. The defaults are for ground that yields, as floors, feet and MuJoCo's ground do. `rigid` and
    `paper` are for rigid ground.

    noise: gaps smaller than this count as zero [m]. With 0 on rigid ground, feet whose measured height is wrong by a fraction
        of a millimetre must close or open this gap within one period.
    recovery_speed: maximum speed at which penetration is undone [m/s]. With inf 1 mm of penetration requires 1 m/s at 1 kHz.
        0: penetration is permitted, as on ground that yields.
    touching: contacts with gaps up to this must stick under `Consistency.STICK` and `HOLD` [m]
    relaxation: T_r, time over which the velocity of a touching contact decays [s]; up to the period H: rigid, the velocity
        decays within the period
    memory: T_p, time constant with which the contact forces approach the law's solution [s]; 0: rigid
    independent: rank threshold for unlimited friction: a tangential row is independent if more than this share of its length is
        orthogonal to the others. Feet count as on a common plane if their distances from it are a smaller share of the
        distances between them. On ground that yields, feet are always some millimetres from a plane: with 1e-3 robots that
        trot with the no-slip law in MuJoCo fall, due to tangential forces of kilonewtons that cancel.
    drift: whether the law applies to the contact velocity at the end of the period, J v⁺ + dt J̇ v (`idyn.terms.drift`). False:
        to J v⁺, as in the paper; forces are then wrong by about the mass of the base times J̇ v

    Raises InputError for values that are not numbers ≥ 0, an infinite memory, and a `drift` that is not a bool.
    """

    noise: float = 1e-5
    recovery_speed: float = 0.0
    touching: float = 3e-4
    relaxation: float = 0.05
    memory: float = 0.005
    independent: float = 1e-2
    drift: bool = True

    @classmethod
    def rigid(cls, **changes: float | bool) -> Self:
        """Return rigid ground whose gaps are measured with errors. changes: other values of fields"""
        rigid = cls(noise=1e-5, recovery_speed=0.05, touching=1e-4, relaxation=0.0, memory=0.0, independent=1e-3)
        return msgspec.structs.replace(rigid, **changes)

    @classmethod
    def paper(cls) -> Self:
        """Return rigid ground with exact gaps, closed within one period, and the law at J v⁺  [ZD §3, Eqs. 34–35]."""
        return cls.rigid(noise=0.0, recovery_speed=np.inf, drift=False)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "drift":
                if not isinstance(value, bool):
                    raise InputError("ground.drift", f"expected True or False, got {value!r}")
            elif not (isinstance(value, (int, float, np.integer, np.floating)) and value >= 0.0):
                raise InputError(f"ground.{name}", f"expected a number ≥ 0, got {value!r}")
        if self.memory == np.inf:
            raise InputError("ground.memory", "expected a finite number ≥ 0, got inf")

    def keeps(self, dt: float) -> float:
        """Return the share 1 − H/T_r of a contact velocity that may remain after a period dt [s]."""
        return max(0.0, 1.0 - dt / self.relaxation) if self.relaxation > 0.0 else 0.0


class Material(NamedTuple):
    """Ground as spring and damper with residual slip  [SAP §II]."""

    stiffness: float = np.inf  # k [N/m], > 0; inf: as rigid as the period permits
    dissipation: float = 0.0  # τ_d [s], ≥ 0; the force of a contact with φ < 0 is k (−φ − τ_d φ̇)
    # β; the stiffest contact oscillates with the period β dt, dt the period of the prediction, which limits the stiffness
    beta: float = 1.0
    sigma: float = 1e-3  # σ, scale of the residual slip
    touching_only: bool = True  # whether the force of contacts with φ > 0 is zero at any closing speed
    # whether the law applies to the contact velocity at the end of the period, with dt J̇ v; False: to J v⁺, as in an engine of
    # this scheme whose step is the period
    drift: bool = True


RIGID = Material()  # placeholder for laws without a material
MOST_FRICTION = 10.0  # maximum friction coefficient on compliant ground, where a sliding contact rises at μ times its speed


@compiled
def opening_speed(gap: float, dt: float, noise: float, recovery_speed: float) -> float:
    """Return the allowance φ/dt of a contact with gap φ [m/s]; the law requires û_N ≥ −φ/dt.

    Positive: the contact may close at up to this speed. Negative: it must open at no less than this speed, which is limited to
    `recovery_speed` [m/s]. Gaps |φ| ≤ `noise` [m] give 0.
    """
    return max(gap / dt, -recovery_speed) if abs(gap) > noise else 0.0


@compiled
def allowance(g: Any, i: int) -> float:
    """Return the allowance φ/dt of contact i of a `Given` [m/s], see `opening_speed`."""
    return opening_speed(g.gaps[i], g.dt, g.noise, g.recovery_speed)


@entry((Vector, Matrix, Matrix), float, written((Matrix,)))
def in_world(given: tuple[Array, Array, Array], largest: float, out: tuple[Array]) -> None:
    """Fill forces in the world (n, 3), each component limited to ± largest. given: (forces in rows S, T, N (3n), first tangents
    s, normals n, each (n, 3)); out: tuple of the forces"""
    (force, tangents, normals), (world,) = given, out
    for i in range(len(world)):
        s, n, a, b, c = tangents[i], normals[i], force[3 * i], force[3 * i + 1], force[3 * i + 2]
        for k in range(3):
            t = n[(k + 1) % 3] * s[(k + 2) % 3] - n[(k + 2) % 3] * s[(k + 1) % 3]
            world[i, k] = min(max(a * s[k] + b * t + c * n[k], -largest), largest)


@compiled
def in_contact_rows(force: Array, tangents: Array, normals: Array, dt: float, p: Array) -> None:
    """Fill the first rows of p (3n): impulses dt · force along s, t = n × s, n of each contact. force: in the world (n, 3)"""
    for i in range(len(force)):
        s, n, f = tangents[i], normals[i], force[i]
        p[3 * i] = dt * (s[0] * f[0] + s[1] * f[1] + s[2] * f[2])
        p[3 * i + 1] = dt * (
            (n[1] * s[2] - n[2] * s[1]) * f[0] + (n[2] * s[0] - n[0] * s[2]) * f[1] + (n[0] * s[1] - n[1] * s[0]) * f[2]
        )
        p[3 * i + 2] = dt * (n[0] * f[0] + n[1] * f[1] + n[2] * f[2])
