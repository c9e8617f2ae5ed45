"""Feet that come down: constrained in the period in which they arrive, and then the leg gives, not the base.

A foot above the ground belongs to no law yet: a law without slip would hold it sideways, one without complementarity would
lean on it. A foot that would reach the ground within the next period does belong, and its leg's demand is changed so that
it arrives exactly and at rest, seen from the base as it moves now. Without that the demand contradicts the contact that is
about to be, and what resolves contradictions (`idyn.prediction.feasible`, the laws) moves the base first, in one period, with
whatever force that takes.
"""

import numpy as np

from idyn.contact.ground import Ground, opening_speed
from idyn.jit.compiled import compiled
from idyn.model.robot import Robot
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array, ContactSet, Kinematics

STANDS = 3
"""Ticks after which a contact stands: within the first it arrives, with the speed that brings it there; then it stops."""

RESTS = 2e-5
"""Gap up to which a contact may stand [m]: one that lifted further has to land again."""

DAMPING = 1e-6
"""Of the leg's inverse, relative: for legs that are stretched or have less than three joints."""


class Landing:
    """Owns for how many ticks contacts have touched."""

    def __init__(self, robot: Robot, ground: Ground, period: float) -> None:
        """period: of the ticks [s]"""
        self._robot, self._ground, self._period = robot, ground, period
        self.reset()

    def reset(self) -> None:
        """Nothing touched."""
        self._ages: dict[str, int] = {}

    def anticipate(self, at: Kinematics, contacts: ContactSet, q_ddot: Array) -> tuple[Array, Array]:
        """Which of the contacts touch or will within the period (n), and the demand that goes with it [rad/s²] (na)."""
        touches = contacts.gaps <= RESTS
        stands = touches & np.array([self._ages.get(key, 0) >= STANDS for key in contacts.keys], dtype=np.bool_)
        if not stands.all():
            J, ground = contact_jacobian(self._robot, at, contacts), self._ground
            motion = at.v, self._robot.tree.a, contacts.gaps
            numbers = self._period, ground.noise, ground.recovery_speed
            q_ddot, arrives = _land(J, motion, numbers, stands, q_ddot)
            touches = touches | arrives
        touching = (key for key, touch in zip(contacts.keys, touches.tolist(), strict=True) if touch)
        self._ages = {key: self._ages.get(key, 0) + 1 for key in touching}
        return touches, q_ddot


@compiled
def _land(
    J_all: Array, motion: tuple[Array, Array, Array], numbers: tuple[float, float, float], stands: Array, q_ddot: Array
) -> tuple[Array, Array]:
    """The demand under which contacts that do not stand but would arrive do so at rest (na), and which ones those are (n).

    J_all: contact Jacobian (3n, nv); motion: v (nv), the actuated velocities (na), gaps [m] (n)
    numbers: period [s], noise [m] and recovery speed [m/s] of the ground
    """
    (v, a, gaps), (dt, noise, recovery_speed) = motion, numbers
    n, na, nv = len(gaps), len(a), len(v)
    softened, arrives = q_ddot.copy(), np.zeros(n, dtype=np.bool_)
    J, lacking, G = np.empty((3, na)), np.empty(3), np.empty((3, 3))
    for i in range(n):
        if stands[i]:
            continue
        # what the contact's velocity lacks of arriving at rest: −φ/dt − J v − dt J_a q̈
        for r in range(3):
            lacking[r] = -opening_speed(gaps[i], dt, noise, recovery_speed) if r == 2 else 0.0
            for j in range(nv):
                lacking[r] -= J_all[3 * i + r, j] * v[j]
            for k in range(na):
                J[r, k] = J_all[3 * i + r, a[k]]
                lacking[r] -= J[r, k] * dt * q_ddot[k]
        if lacking[2] < 0.0:
            continue
        arrives[i] = True
        # q̈ += J_aᵀ (J_a J_aᵀ + damping)⁻¹ lacking / dt
        trace = 0.0
        for r in range(3):
            for c in range(3):
                G[r, c] = J[r] @ J[c]
            trace += G[r, r]
        for r in range(3):
            G[r, r] += DAMPING * trace
        cholesky(G)
        forward(G, lacking)
        backward(G, lacking)
        for k in range(na):
            softened[k] += (J[0, k] * lacking[0] + J[1, k] * lacking[1] + J[2, k] * lacking[2]) / dt
    return softened, arrives
