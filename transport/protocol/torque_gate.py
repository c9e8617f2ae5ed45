"""The torque gate: the last limit check of every torque, on the server and again on the robot's side.

    1. finite         a non-finite torque becomes 0
    2. rate           |τ − τ_before| ≤ dtau_max dt, with τ_before clipped to ±tau_max
    3. hard limits    |τ| ≤ tau_max,  |τ| ≤ tau0 (1 − |v|/v0);  a joint outside its position limits gets no torque outwards,
                      a joint above its speed limit gets no torque in the direction of its speed

The hard limits override the rate limit.
"""

from enum import IntEnum

import msgspec
import numpy as np

from controllers.command import LimitedBy
from idyn.errors import InputError
from idyn.library.kernels import entry
from idyn.library.records import Indices, Matrix, Vector, written
from idyn.model.tree import Limits
from idyn.types import Array, Record

TORQUE, RATE, SPEED_TORQUE = int(LimitedBy.TORQUE), int(LimitedBy.RATE), int(LimitedBy.SPEED_TORQUE)
POSITION, VELOCITY = int(LimitedBy.POSITION), int(LimitedBy.VELOCITY)

GIVEN, CHANGED = (Vector, Vector, Vector, Matrix), written((Vector, Indices))
"""Arguments of `_gate`.

given: (angles (na), speeds (na), torques applied until now (na), limits (7, na))
changed: (torques (na), `LimitedBy` bits (na))
"""

GIVEN_TWICE, CHANGED_TWICE = (*[Vector] * 4, Matrix, Matrix), written((Vector, Indices, Vector, Indices, Vector))
"""Arguments of `_gate_twice`.

given: (angles (na), speeds (na), torques applied until now (na), last feed-forward torques (na), limits (7, na), limits of the
    feed-forward torques (7, na))
changed: (torques (na), `LimitedBy` bits (na), feed-forward torques (na), their bits (na), output: torques minus feed-forward
    ones (na))
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
    """Applies the limits to torques. table: the limits as rows (7, na)"""

    def __init__(self, limits: TorqueLimits) -> None:
        self.limits = limits
        self.table = np.array([getattr(limits, name) for name in limits.__struct_fields__], dtype=np.float64)

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
        changes = _gate((angles, speeds, before, self.table), dt, (passed, bits))
        if changes < 0:
            raise _wrong_sizes(self.table, tau, angles, speeds, before, bits)
        return passed, bits, changes > 0


class Passed(Record, frozen=True):
    """Torques after both gates; each (na)."""

    tau: Array  # within the limits [N·m]
    limited_by: Array  # its `LimitedBy` bits
    changed: bool  # whether the gate changed it
    tau_ff: Array  # feed-forward part within the limits and its own rates [N·m]
    ff_changed: bool  # whether the gate changed it
    tau_fb: Array  # tau − tau_ff [N·m]


class TwinGate:
    """Applies the limits to torques and, with rates of its own, to their feed-forward part: two gates in one call."""

    def __init__(self, limits: TorqueLimits, rates: Array) -> None:
        """rates: largest rates of the feed-forward torques, beside dtau_max [N·m/s] (na)"""
        own = Gate(limits), Gate(msgspec.structs.replace(limits, dtau_max=np.minimum(limits.dtau_max, rates)))
        self.tables = own[0].table, own[1].table
        self._ff_bits = np.zeros(len(rates), dtype=np.int64)

    def apply(
        self,
        torques: tuple[Array, Array],
        measured: tuple[Array, Array],
        before: tuple[Array | None, Array | None],
        dt: float,
        limited_by: Array,
    ) -> Passed:
        """Return the torques within the limits.

        torques: tau and tau_ff [N·m]; measured: angles [rad] and speeds [rad/s]; each (na)
        before: torques applied until now and last feed-forward torques [N·m] (na); None: unknown
        dt: time since `before` was applied [s]; 0: unknown
        limited_by: reasons of earlier changes of tau (na)
        Raises InputError for arrays of different sizes.
        """
        tau, tau_ff, bits, tau_fb = torques[0].copy(), torques[1].copy(), limited_by.copy(), np.empty(len(torques[0]))
        was, ff_was, since, ff_since = *before, dt, dt
        if was is None or not dt > 0.0:
            was, since = tau, float("inf")
        if ff_was is None or not dt > 0.0:
            ff_was, ff_since = tau_ff, float("inf")
        given, changed = (*measured, was, ff_was, *self.tables), (tau, bits, tau_ff, self._ff_bits, tau_fb)
        changes, ff_changes = _gate_twice(given, since, ff_since, changed)
        if changes < 0 or ff_changes < 0:
            raise _wrong_sizes(self.tables[0], tau, *measured, was, bits, tau_ff, ff_was)
        return Passed(tau=tau, limited_by=bits, changed=changes > 0, tau_ff=tau_ff, ff_changed=ff_changes > 0, tau_fb=tau_fb)


def _wrong_sizes(table: Array, *given: Array) -> InputError:
    expected = f"expected arrays of {table.shape[1]} motors (torques, angles, speeds, torques before, bits)"
    return InputError("torque gate", f"{expected}, got {', '.join(str(len(each)) for each in given)}")


@entry(GIVEN_TWICE, float, float, CHANGED_TWICE)
def _gate_twice(given: tuple[Array, ...], dt: float, ff_dt: float, changed: tuple[Array, ...]) -> tuple[int, int]:
    """Limit torques and feed-forward torques in place, and fill their difference. See `GIVEN_TWICE`, `CHANGED_TWICE`.

    Return for both the number of changed torques; −1, without any change, when the arrays have different sizes.
    """
    (angles, speeds, before, ff_before, table, ff_table), (tau, bits, tau_ff, ff_bits, tau_fb) = given, changed
    changes = _gate((angles, speeds, before, table), dt, (tau, bits))
    ff_changes = _gate((angles, speeds, ff_before, ff_table), ff_dt, (tau_ff, ff_bits))
    if changes >= 0 and ff_changes >= 0:
        for k in range(len(tau)):
            tau_fb[k] = tau[k] - tau_ff[k]
    return changes, ff_changes


@entry(GIVEN, float, CHANGED)
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


class Stage(IntEnum):
    """Stages of an outage, in temporal order."""

    FOLLOW = 0
    REST = 1
    STOPPED = 2


def stage(outage_ns: int, hold_ns: int, latch_ns: int) -> Stage:
    """Return the stage of an outage of this length. All times in [ns]."""
    if outage_ns >= latch_ns:
        return Stage.STOPPED
    return Stage.FOLLOW if outage_ns < hold_ns else Stage.REST
