"""Landing feet: a foot becomes a contact in the period in which it touches down, and the demand of its leg is changed to match.

A foot above the ground is not passed to the contact law: a law without slip would prevent its sideways motion, a law without
complementarity would load it. A foot that reaches the ground within the next period is passed to the law, and the demand of its
leg is changed so that the foot reaches the ground at the end of the period and is then at rest, with the base moving as
measured. With the original demand, which contradicts the new contact, projection (`idyn.prediction.feasible`) or law would
change the base velocity within one period, with large forces.
"""

import numpy as np

from idyn.contact.ground import Ground, opening_speed
from idyn.jit.compiled import compiled
from idyn.model.robot import Robot
from idyn.prediction.method import workspace_for
from idyn.solvers.linalg import backward, cholesky, forward
from idyn.terms.dynamics import fill_dynamics
from idyn.types import Array, ContactSet, Kinematics

STANDS = 3
"""Number of ticks with contact after which a foot counts as standing. In the first of these ticks it still has its touchdown
speed."""

RESTS = 2e-5
"""Largest gap of a standing contact [m]. A foot with a larger gap must land again before it counts as standing."""

DAMPING = 1e-6
"""Relative damping of the leg's inverse, for stretched legs and legs with fewer than three joints."""


class Landing:
    """Finds the feet that touch down. Stores for how many ticks each contact has touched."""

    def __init__(self, robot: Robot, ground: Ground, period: float) -> None:
        """period: control period [s]"""
        self._robot, self._ground, self._period = robot, ground, period
        self.reset()

    def reset(self) -> None:
        """Forget all contacts."""
        self._ages: dict[str, int] = {}

    def anticipate(self, at: Kinematics, contacts: ContactSet, q_ddot: Array) -> tuple[Array, Array]:
        """Return which contacts touch now or within the period (n), and the changed demand [rad/s²] (na)."""
        touches = contacts.gaps <= RESTS
        stands = touches & np.array([self._ages.get(key, 0) >= STANDS for key in contacts.keys], dtype=np.bool_)
        if not stands.all():
            ground, workspace = self._ground, workspace_for(self._robot, len(contacts))
            workspace.prepare(ground, self._period, False)
            dynamics = workspace.problem.dynamics
            if fill_dynamics(self._robot, dynamics, at, contacts, None, None):  # otherwise `predict` names the malformed field
                motion = at.v, self._robot.tree.a, contacts.gaps
                numbers = self._period, ground.noise, ground.recovery_speed
                q_ddot, arrives = _land((dynamics.own["J"], dynamics.own["drift"]), motion, numbers, stands, q_ddot)
                touches = touches | arrives
        touching = (key for key, touch in zip(contacts.keys, touches.tolist(), strict=True) if touch)
        self._ages = {key: self._ages.get(key, 0) + 1 for key in touching}
        return touches, q_ddot


@compiled
def _land(
    rows: tuple[Array, Array],
    motion: tuple[Array, Array, Array],
    numbers: tuple[float, float, float],
    stands: Array,
    q_ddot: Array,
) -> tuple[Array, Array]:
    """Return the demand under which contacts that arrive within the period are then at rest (na), and which ones arrive (n).

    rows: (contact Jacobian (3n, nv), dt J̇ v (3n))
    motion: (v (nv), indices of the actuated velocities (na), gaps [m] (n))
    numbers: (period [s], noise [m] of the ground, its recovery speed [m/s])
    stands: which contacts already stand; these do not arrive (n)
    """
    (J_all, drift), (v, a, gaps), (dt, noise, recovery_speed) = rows, motion, numbers
    n, na, nv = len(gaps), len(a), len(v)
    softened, arrives = q_ddot.copy(), np.zeros(n, dtype=np.bool_)
    J, error, G = np.empty((3, na)), np.empty(3), np.empty((3, 3))
    for i in range(n):
        if stands[i]:
            continue
        # velocity error of an arrival at rest: [0, 0, −φ/dt] − J v − dt J̇ v − dt J_a q̈
        for r in range(3):
            error[r] = -drift[3 * i + r] - (opening_speed(gaps[i], dt, noise, recovery_speed) if r == 2 else 0.0)
            for j in range(nv):
                error[r] -= J_all[3 * i + r, j] * v[j]
            for k in range(na):
                J[r, k] = J_all[3 * i + r, a[k]]
                error[r] -= J[r, k] * dt * q_ddot[k]
        if error[2] < 0.0:
            continue
        arrives[i] = True
        # q̈ += J_aᵀ (J_a J_aᵀ + damping)⁻¹ error / dt
        trace = 0.0
        for r in range(3):
            for c in range(3):
                G[r, c] = J[r] @ J[c]
            trace += G[r, r]
        for r in range(3):
            G[r, r] += DAMPING * trace
        cholesky(G)
        forward(G, error)
        backward(G, error)
        for k in range(na):
            softened[k] += (J[0, k] * error[0] + J[1, k] * error[1] + J[2, k] * error[2]) / dt
    return softened, arrives
