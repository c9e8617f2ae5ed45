"""The robot's own watchdog: what to apply while no good torque comes. No I/O."""

from enum import StrEnum

import numpy as np

from idyn.errors import InputError
from idyn.types import Array

TOLERATED_TICKS = 2
"""A torque that is missing for so many ticks is nothing unusual."""

DAMPING_NS = 20_000_000
"""From this age of the last torque on the robot damps [ns]."""

DECAY_NS = 50_000_000
"""The last torque fades into damping over so long [ns]."""

STOP_NS = 100_000_000
"""From this age on the robot stays stopped until `reset` [ns]."""


class FailsafeMode(StrEnum):
    """What the torque is."""

    OK = "ok"  # the server's, at most two ticks old
    HOLD = "hold"  # the server's last one
    DAMPING = "damping"  # the last one fading into −kd·v
    STOPPED = "stopped"  # −kd·v until `reset`, whatever comes


class Failsafe:
    """Chooses between the server's torque, its last one, and damping.

    kd: damping of each motor [N·m·s/rad] (na)
    tau_max: bound of the damping torque [N·m] (na)
    """

    def __init__(self, *, dt: float, kd: Array, tau_max: Array) -> None:
        if kd.shape != tau_max.shape:
            raise InputError("kd", f"expected shape {tau_max.shape}, got {kd.shape}")
        self._tolerated_ns = round(TOLERATED_TICKS * dt * 1e9)
        self._kd = kd
        self._tau_max = tau_max
        self.reset()

    def reset(self) -> None:
        """Forget everything; damp until the first torque comes."""
        self._last: Array | None = None
        self._last_ns = 0
        self._stopped = False

    def torque(self, now_ns: int, v_actuated: Array, fresh: Array | None) -> tuple[Array, FailsafeMode]:
        """The torque to apply now (na) and what it is.

        v_actuated: speeds of the motors [rad/s] (na)
        fresh: the torque that came in this tick (na), None when none came; one that is not finite counts as none
        """
        if fresh is not None and fresh.shape != self._kd.shape:
            raise InputError("fresh", f"expected shape {self._kd.shape}, got {fresh.shape}")
        age = now_ns - self._last_ns
        if self._last is not None and age >= STOP_NS:
            self._stopped = True
        if self._stopped:
            return self._damping(v_actuated), FailsafeMode.STOPPED
        if fresh is not None and np.isfinite(fresh).all():
            self._last, self._last_ns = fresh.copy(), now_ns
            return fresh, FailsafeMode.OK
        if self._last is None:
            return self._damping(v_actuated), FailsafeMode.DAMPING
        if age >= DAMPING_NS:
            fade = min((age - DAMPING_NS) / DECAY_NS, 1.0)
            return (1.0 - fade) * self._last + fade * self._damping(v_actuated), FailsafeMode.DAMPING
        return self._last, FailsafeMode.OK if age <= self._tolerated_ns else FailsafeMode.HOLD

    def _damping(self, v: Array) -> Array:
        return np.clip(-self._kd * v, -self._tau_max, self._tau_max)
