"""The ground's contact model: how far gaps are trusted, and how the ground yields  (MATHEMATICS §2).

A rigid law asks the contact velocity u⁺ = J v⁺ to obey it at the end of the period, whatever it was before. On ground that
yields the force that would take is not there, and the torque that was to carry it throws the foot. So every law but `sap`,
which has a ground of its own, is asked not of v⁺ but of

    v̂ = v⁺ − (1 − H/T_r) v + (T_p/H) M_uu⁻¹ J_uᵀ (p − p⁻),        û = J v̂

with H the period of the prediction, v the velocity now and p⁻ the impulses of the last tick: a contact velocity may die out
over the relaxation time T_r instead of within H, and what the contacts do to the robot moves towards the law's answer with the
time constant T_p of the memory. In J v̂ = D̂ p + b̂ the matrix is (1 + T_p/H) D, so that its rank, the face of a solution and the
cost of every solver stay what they were. In a steady contact (v = 0, p = p⁻) any T_r and T_p have the rigid law's own solution.
T_r = H, T_p = 0 is the rigid law to the letter. The first prediction, which has no last impulses, has no memory; a contact that
was not there in the last tick begins with p⁻ = 0.
"""

from typing import Any, NamedTuple

import numpy as np

from idyn.errors import InputError
from idyn.jit.compiled import compiled
from idyn.types import Array, Record


class Ground(Record, frozen=True):
    """
    noise: gaps smaller than this count as zero [m]. 0 is the paper's literal form; feet that are measured to be a fraction of a
        millimetre off the ground are asked to close or open it within one period otherwise.
    recovery_speed: penetration is undone at this speed at most [m/s]; inf is the paper's literal form, in which 1 mm of
        penetration demands an escape of 1 m/s at 1 kHz; 0: penetration is rest, as on ground that yields.
    touching: contacts with a gap up to this are meant to stick, for `Consistency.STICK` and `HOLD` [m].
    relaxation: T_r, in which the velocity of a touching contact may die out [s]; at most the period: within the period, rigid
    memory: T_p, with which the contacts' action moves towards the law's answer [s]; 0: at once, rigid
    independent: contacts of unlimited friction hold sideways in directions of which more than this share is new; feet off one
        plane by a smaller share of their distances are taken to be on it. On ground that yields they are always off by some
        millimetres: at 1e-3 robots that trot under no slip in MuJoCo fall by kilonewtons that cancel
    Raises InputError for what is not a number ≥ 0, and for a memory that is not finite.
    """

    noise: float = 1e-5
    recovery_speed: float = 0.05
    touching: float = 1e-4
    relaxation: float = 0.0
    memory: float = 0.0
    independent: float = 1e-3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not (isinstance(value, (int, float, np.integer, np.floating)) and value >= 0.0):
                raise InputError(f"ground.{name}", f"expected a number ≥ 0, got {value!r}")
        if self.memory == np.inf:
            raise InputError("ground.memory", "expected a finite number ≥ 0, got inf")

    def keeps(self, dt: float) -> float:
        """Share 1 − H/T_r of a contact's velocity that may be left after a period of dt [s]."""
        return max(0.0, 1.0 - dt / self.relaxation) if self.relaxation > 0.0 else 0.0


class Material(NamedTuple):
    """Ground as a spring and damper, k and τ_d known, on which friction creeps a little  [SAP §II].

    stiffness: k [N/m], > 0; inf: as rigid as the period allows
    dissipation: τ_d [s], ≥ 0; the force of a contact that is pressed in is k (−φ − τ_d φ̇)
    beta: period of the stiffest contact, in periods of the prediction; sigma: σ, how little a sticking contact creeps
    touching_only: contacts with φ > 0 carry nothing, whatever they are about to do
    """

    stiffness: float = np.inf
    dissipation: float = 0.0
    beta: float = 1.0
    sigma: float = 1e-3
    touching_only: bool = True


RIGID = Material()
"""For laws that do not ask."""

MOST_FRICTION = 10.0
"""On such ground, for what slides there rises at μ times its speed."""


@compiled
def opening_speed(gap: float, dt: float, noise: float, recovery_speed: float) -> float:
    """φ/dt of a gap [m] after the noise floor and the recovery limit [m/s]: a contact opens at least so fast."""
    return max(gap / dt, -recovery_speed) if abs(gap) > noise else 0.0


@compiled
def allowance(g: Any, i: int) -> float:
    """The opening speed of contact i of a `Given` [m/s]."""
    return opening_speed(g.gaps[i], g.dt, g.noise, g.recovery_speed)


@compiled
def in_contact_rows(force: Array, tangents: Array, normals: Array, dt: float, p: Array) -> None:
    """Fill the first rows of p (3n) with world vectors (n, 3) times dt, along s, t = n × s and n of each contact."""
    for i in range(len(force)):
        s, n, f = tangents[i], normals[i], force[i]
        p[3 * i] = dt * (s[0] * f[0] + s[1] * f[1] + s[2] * f[2])
        p[3 * i + 1] = dt * (
            (n[1] * s[2] - n[2] * s[1]) * f[0] + (n[2] * s[0] - n[0] * s[2]) * f[1] + (n[0] * s[1] - n[1] * s[0]) * f[2]
        )
        p[3 * i + 2] = dt * (n[0] * f[0] + n[1] * f[1] + n[2] * f[2])
