"""The torque gate: the last limit check of every torque, on the server and again on the robot's side.

    1. finite         a non-finite torque becomes 0
    2. rate           |τ − τ_before| ≤ dtau_max dt, with τ_before clipped to ±tau_max
    3. hard limits    |τ| ≤ tau_max,  |τ| ≤ tau0 (1 − |v|/v0);  a joint outside its position limits gets no torque outwards,
                      a joint above its speed limit gets no torque in the direction of its speed

The hard limits override the rate limit.
"""

import numpy as np

from controllers.command import LimitedBy
from idyn.errors import InputError
from idyn.jit.compiled import INDICES, MATRIX, REAL, VECTOR, compiled
from idyn.jit.entry import Borrowed, Output, entry_point
from idyn.model.tree import Limits
from idyn.types import Array, Record

TORQUE, RATE, SPEED_TORQUE = int(LimitedBy.TORQUE), int(LimitedBy.RATE), int(LimitedBy.SPEED_TORQUE)
POSITION, VELOCITY = int(LimitedBy.POSITION), int(LimitedBy.VELOCITY)

GIVEN, CHANGED = Borrowed(VECTOR, VECTOR, VECTOR, MATRIX), Output(VECTOR, INDICES)
"""Arguments of `_gate`.

given: (angles (na), speeds (na), torques applied until now (na), limits (7, na))
changed: (torques (na), `LimitedBy` bits (na))
"""


class TorqueLimits(Record, frozen=True):
    """Limits of the actuated joints; each (na), inf without a limit.

    tau_max [N·m], dtau_max [N·m/s], q_min and q_max [rad], v_max [rad/s]
    tau0, v0: stall torque [N·m] and no-load speed [rad/s]: |τ| ≤ tau0·(1 − |v|/v0)
    """

    tau_max: Array
    dtau_max: Array
    q_min: Array
    q_max: Array
    v_max: Array
    tau0: Array
    v0: Array


def limits_of(own: Limits) -> TorqueLimits:
    """Return a robot's own limits; those that it does not have are inf."""
    none = np.full(len(own.tau_max), np.inf)
    return TorqueLimits(
        tau_max=own.tau_max, dtau_max=none, q_min=own.q_min, q_max=own.q_max, v_max=own.v_max, tau0=none, v0=none
    )


class Gate:
    """Applies the limits to torques."""

    def __init__(self, limits: TorqueLimits) -> None:
        self.limits = limits
        self._table = np.array([getattr(limits, name) for name in limits.__struct_fields__], dtype=np.float64)
        self._gate = entry_point(_gate, GIVEN, REAL, CHANGED)

    def apply(
        self, tau: Array, angles: Array, speeds: Array, before: Array | None, dt: float, limited_by: Array | None = None
    ) -> tuple[Array, Array, bool]:
        """Return torques within the limits [N·m] (na), reasons of changes as `LimitedBy` bits (na), and whether there are any.

        tau [N·m], angles [rad], speeds [rad/s] (na)
        before: torques applied until now [N·m] (na); None: unknown
        dt: time since `before` was applied [s]; 0: unknown
        limited_by: reasons of earlier changes (na); None: unchanged so far
        Raises InputError for arrays of different sizes.
        """
        passed = tau.copy()
        bits = np.zeros(len(tau), dtype=np.int64) if limited_by is None else limited_by.copy()
        if before is None or not dt > 0.0:
            before, dt = passed, float("inf")
        changes = self._gate((angles, speeds, before, self._table), dt, (passed, bits))
        if changes < 0:
            sizes = ", ".join(str(len(each)) for each in (tau, angles, speeds, before, bits))
            expected = f"expected arrays of {self._table.shape[1]} motors (torques, angles, speeds, torques before, bits)"
            raise InputError("torque gate", f"{expected}, got {sizes}")
        return passed, bits, changes > 0


@compiled
def _gate(given: tuple[Array, ...], dt: float, changed: tuple[Array, Array]) -> int:
    """Limit the torques in place and set the bits of the limits that changed them. given, changed: see `GIVEN`, `CHANGED`

    Return the number of changed torques; −1, without any change, when the arrays have different sizes.
    """
    (angles, speeds, before, table), (tau, bits), na = given, changed, given[3].shape[1]
    if not len(tau) == len(bits) == len(angles) == len(speeds) == len(before) == na:
        return -1
    changes = 0
    for k in range(na):
        tau_max, dtau_max, q_min, q_max, v_max, tau0, v0 = table[:, k]
        t = tau[k]
        # a non-finite torque becomes 0
        if not np.isfinite(t):
            t, bits[k] = 0.0, bits[k] | TORQUE
        # rate: |τ − τ_before| ≤ dtau_max dt, τ_before clipped to ±tau_max
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
        # no torque outwards outside the position limits, no torque in the direction of a speed above the speed limit
        if (angles[k] >= q_max and t > 0.0) or (angles[k] <= q_min and t < 0.0):
            t, bits[k] = 0.0, bits[k] | POSITION
        if (speeds[k] >= v_max and t > 0.0) or (speeds[k] <= -v_max and t < 0.0):
            t, bits[k] = 0.0, bits[k] | VELOCITY
        if t != tau[k]:  # also for a torque that was NaN
            tau[k], changes = t, changes + 1
    return changes
