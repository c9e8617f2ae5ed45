"""The last gate: what every torque passes before it leaves the server, and once more before it reaches the motors.

    before the limits     a torque that is not finite becomes 0
    rate                  at most dtau_max dt away from the torque that was in the motors, as far as that is within ±tau_max
    hard limits, last     |τ| ≤ tau_max,  |τ| ≤ tau0 (1 − |v|/v0),  nothing that drives a joint further beyond its position
                          limit or, beyond its largest speed, faster

The hard limits have the last word: a torque that must go for their sake goes at once, however slowly torques may change.
"""

import numpy as np

from controllers.command import LimitedBy
from idyn.errors import InputError
from idyn.jit.compiled import INDICES, MATRIX, REAL, VECTOR, compiled
from idyn.jit.crossing import Filled, Lent, entrance
from idyn.model.tree import Limits
from idyn.types import Array, Record

TORQUE, RATE, SPEED_TORQUE = int(LimitedBy.TORQUE), int(LimitedBy.RATE), int(LimitedBy.SPEED_TORQUE)
POSITION, VELOCITY = int(LimitedBy.POSITION), int(LimitedBy.VELOCITY)

GIVEN, CHANGED = Lent(VECTOR, VECTOR, VECTOR, MATRIX), Filled(VECTOR, INDICES)
"""Angles, speeds, torques before (na), limits (7, na). Torques, `LimitedBy` bits (na)."""


class TorqueLimits(Record, frozen=True):
    """Limits of actuated joints in one order; each (na), inf where there is none.

    tau_max [N·m], dtau_max [N·m/s], q_min and q_max [rad], v_max [rad/s]
    tau0, v0: |τ| ≤ tau0·(1 − |v|/v0) [N·m], [rad/s]
    """

    tau_max: Array
    dtau_max: Array
    q_min: Array
    q_max: Array
    v_max: Array
    tau0: Array
    v0: Array


def limits_of(own: Limits) -> TorqueLimits:
    """A robot's own limits."""
    none = np.full(len(own.tau_max), np.inf)
    return TorqueLimits(
        tau_max=own.tau_max, dtau_max=none, q_min=own.q_min, q_max=own.q_max, v_max=own.v_max, tau0=none, v0=none
    )


class Gate:
    """Lets torques through as far as the limits allow."""

    def __init__(self, limits: TorqueLimits) -> None:
        self.limits = limits
        self._table = np.array([getattr(limits, name) for name in limits.__struct_fields__], dtype=np.float64)
        self._gate = entrance(_gate, GIVEN, REAL, CHANGED)

    def apply(
        self, tau: Array, angles: Array, speeds: Array, before: Array | None, dt: float, limited_by: Array | None = None
    ) -> tuple[Array, Array]:
        """Torques within the limits (na), and why they changed, as `LimitedBy` bits (na).

        tau [N·m], angles [rad], speeds [rad/s] (na)
        before: torques in the motors until now [N·m] (na), None when that is not known; dt: for how long [s], 0 not known
        limited_by: why they had changed before they came here (na), None: they had not
        """
        passed = tau.copy()
        bits = np.zeros(len(tau), dtype=np.int64) if limited_by is None else limited_by.copy()
        if before is None or not dt > 0.0:
            before, dt = passed, float("inf")
        if not self._gate((angles, speeds, before, self._table), dt, (passed, bits)):
            sizes = ", ".join(str(len(each)) for each in (tau, angles, speeds, before, bits))
            expected = f"expected torques, angles, speeds and all else of {self._table.shape[1]} motors"
            raise InputError("torque gate", f"{expected}, got {sizes}")
        return passed, bits


@compiled
def _gate(given: tuple[Array, ...], dt: float, changed: tuple[Array, Array]) -> bool:
    """Brings torques within the limits, and adds to the bits why; whether all are of one size, otherwise nothing is done.
    given, changed: see `GIVEN`, `CHANGED`"""
    (angles, speeds, before, table), (tau, bits), na = given, changed, given[3].shape[1]
    if not len(tau) == len(bits) == len(angles) == len(speeds) == len(before) == na:
        return False
    for k in range(na):
        tau_max, dtau_max, q_min, q_max, v_max, tau0, v0 = table[:, k]
        t = tau[k]
        # a torque that is not finite becomes 0
        if not np.isfinite(t):
            t, bits[k] = 0.0, bits[k] | TORQUE
        # rate: |τ − τ_before| ≤ dtau_max dt, from what was within ±tau_max
        if dt < np.inf and dtau_max < np.inf:
            was = min(max(before[k], -tau_max), tau_max) if np.isfinite(before[k]) else 0.0
            rated = min(max(t, was - dtau_max * dt), was + dtau_max * dt)
            if rated != t:
                t, bits[k] = rated, bits[k] | RATE
        # |τ| ≤ tau_max,  |τ| ≤ tau0 (1 − |v|/v0)
        if abs(t) > tau_max:
            t, bits[k] = np.sign(t) * tau_max, bits[k] | TORQUE
        if tau0 < np.inf:
            derated = tau0 * max(0.0, 1.0 - abs(speeds[k]) / v0)
            if abs(t) > derated:
                t, bits[k] = np.sign(t) * derated, bits[k] | SPEED_TORQUE
        # no torque further beyond a position limit, or faster beyond the largest speed
        if (angles[k] >= q_max and t > 0.0) or (angles[k] <= q_min and t < 0.0):
            t, bits[k] = 0.0, bits[k] | POSITION
        if (speeds[k] >= v_max and t > 0.0) or (speeds[k] <= -v_max and t < 0.0):
            t, bits[k] = 0.0, bits[k] | VELOCITY
        tau[k] = t
    return True
