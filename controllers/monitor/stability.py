"""Stability of a standing leg on a floor: the control loop of the vertical base-over-foot model, linearised.

A base m_b stands over a foot m_f on a floor with stiffness k and damping d, both per foot; m = m_b + m_f. The motor's force τ
acts between them. With q = z_base − z_foot, foot velocity u and q̈ = −K_p q − K_d q̇, about the equilibrium, the law of relaxed
velocities is

    F (1 + T_p/dt) = (T_p/dt) F⁻ + m_b q̈ − (m/T_r) u,     τ = (m_b/m) (m_f q̈ + F) − k_τ q − d_τ q̇

(`idyn.contact.ground` for a single contact). The loop is sampled: the torque is constant over a period and acts n ticks later;
it is computed for a state that was extrapolated over them with the predicted changes of velocity. The loop is stable if all
eigenvalues of one period lie inside the unit circle.

Without delay and for short periods, passivity of the foot's port suffices: with H = 1/(1 + T_p s), G = (m_f + m_b H)/m,
C = K_d + K_p/s and P = d_τ + k_τ/s,

    Z = (m_b (G C − H/T_r) + P) / (1 + G C/s + P/(m_b s)),     d ≥ −Re Z(jω) for all ω

1/T_r acts as negative damping of the foot, for which K_d pays. A delay turns the virtual stiffness m_b (K_d − 1/T_r)/T_p into
negative damping. Pitch and roll are not in the model; they need more damping.
"""

import numpy as np

from controllers.config.loading import Settings
from idyn.contact.ground import Ground
from idyn.model.robot import Robot
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array, ContactSet

DAMPINGS = np.concatenate([[0.0], np.geomspace(1.0, 1e4, 41)])
"""Dampings of the floor that are tried [N·s/m]."""

FREQUENCIES = np.geomspace(1e-2, 1e6, 4001)
"""Angular frequencies at which the foot's port is examined [rad/s]."""

STABLE = 1.0 + 1e-9
"""Largest magnitude of an eigenvalue of a stable loop."""


class VerticalLeg(Settings, frozen=True):
    """A leg under its share of the robot, and its controller.

    base, foot: m_b, m_f [kg]; period: dt [s]
    kp, kd: K_p [1/s²], K_d [1/s]; torque_kp, torque_kd: k_τ [N/m], d_τ [N·s/m]
    relaxation, memory: T_r, T_p [s]; relaxation 0: dt
    """

    base: float
    foot: float
    kp: float
    kd: float
    torque_kp: float = 0.0
    torque_kd: float = 0.0
    relaxation: float = 0.05
    memory: float = 0.005
    period: float = 0.001

    @property
    def passive_damping(self) -> float:
        """Return the damping of the floor that suffices without delay for every stiffness [N·s/m]; ≤ 0: none is needed."""
        s, share = 1j * FREQUENCIES, self.foot / (self.base + self.foot)
        H = 1.0 / (1.0 + self.memory * s)
        GC = (share + (1.0 - share) * H) * (self.kd + self.kp / s)
        P = self.torque_kd + self.torque_kp / s
        Z = (self.base * (GC - H / max(self.relaxation, self.period)) + P) / (1.0 + GC / s + P / (self.base * s))
        return float(-Z.real.min())


def vertical_leg(
    robot: Robot,
    stance: Array,
    contacts: ContactSet,
    ground: Ground,
    gains: tuple[float, float, float, float],
    period: float,
) -> VerticalLeg | None:
    """Return the leg of a robot that stands: its share of the mass, and the mean over its feet of what the floor feels of it.

    The foot's mass is (J M⁻¹ Jᵀ)⁻¹ along the normal, with the base held. Gains on joint torques count as −J⁻ᵀ K J⁻¹.

    stance: configuration (nq); contacts: of all feet; gains: kp [1/s²], kd [1/s], torque kp [N·m/rad], torque kd [N·m·s/rad]
    period: dt [s]
    None: no free base, or feet that the joints cannot move.
    """
    n, a = len(contacts.keys), robot.tree.a
    if not robot.floating or not n:
        return None
    at = robot.terms(stance, np.zeros(robot.nv))
    J = contact_jacobian(robot, at, contacts)[2::3][:, a]
    mobility = np.diag(J @ np.linalg.solve(at.M[np.ix_(a, a)], J.T))
    squared = (J**2).sum(axis=1)
    if not (mobility > 0.0).all():
        return None
    foot, share = float((1.0 / mobility).mean()), robot.total_mass / n
    kp, kd, torque_kp, torque_kd = gains
    leverage = float((1.0 / squared).mean())
    return VerticalLeg(
        base=max(share - foot, 0.1 * share),
        foot=foot,
        kp=kp,
        kd=kd,
        torque_kp=torque_kp * leverage,
        torque_kd=torque_kd * leverage,
        relaxation=ground.relaxation,
        memory=ground.memory,
        period=period,
    )


def critical_damping(leg: VerticalLeg, stiffness: float, delay: int) -> float:
    """Return the least of `DAMPINGS` from which on the loop is stable on a floor of this stiffness; inf: with none of them.

    stiffness: k [N/m] per foot; delay: n [ticks]
    """
    stable = [spectral_radius(leg, stiffness, damping, delay) <= STABLE for damping in DAMPINGS]
    first = len(stable)
    while first > 0 and stable[first - 1]:
        first -= 1
    return float(DAMPINGS[first]) if first < len(stable) else np.inf


def spectral_radius(leg: VerticalLeg, stiffness: float, damping: float, delay: int) -> float:
    """Return the largest magnitude of an eigenvalue of one period of the loop.

    stiffness, damping: k [N/m], d [N·s/m] per foot; delay: n [ticks]
    """
    return float(np.abs(np.linalg.eigvals(_period_matrix(leg, stiffness, damping, delay))).max())


def _period_matrix(leg: VerticalLeg, stiffness: float, damping: float, delay: int) -> Array:
    """Return A of x⁺ = A x.

    x = (z_foot, z_base, u, w, F⁻, then of each of the last n ticks: predicted changes of u and w, τ)
    """
    n = 5 + 3 * delay
    x, dt, m = np.eye(n), leg.period, leg.base + leg.foot
    relaxation = max(leg.relaxation, dt)
    foot, base, u, w, last = x[:5]
    # state after the delay, with the predicted changes of velocity, oldest first
    for k in range(delay):
        u, w = u + x[5 + 3 * k], w + x[6 + 3 * k]
        foot, base = foot + dt * u, base + dt * w
    # law and torque
    q, speed = base - foot, w - u
    demand = -leg.kp * q - leg.kd * speed
    force = (leg.memory / dt * last + leg.base * demand - m / relaxation * u) / (1.0 + leg.memory / dt)
    tau = leg.base / m * (leg.foot * demand + force) - leg.torque_kp * q - leg.torque_kd * speed
    # predicted changes of velocity, those of the law's own part
    fall = (force - leg.base * demand) / m
    changes = dt * fall, dt * (fall + demand)
    acting = x[7] if delay else tau
    A = np.zeros((n, n))
    A[:4] = _plant(leg, stiffness, damping) @ np.vstack([x[:4], acting])
    A[4] = force
    if delay:
        A[5 : n - 3] = x[8:]
        A[n - 3 :] = *changes, tau
    return A


def _plant(leg: VerticalLeg, stiffness: float, damping: float) -> Array:
    """Return the exact change of (z_foot, z_base, u, w) over one period under a constant τ (4, 5)."""
    rates = np.zeros((5, 5))
    rates[0, 2] = rates[1, 3] = 1.0
    rates[2] = np.array([-stiffness, 0.0, -damping, 0.0, -1.0]) / leg.foot
    rates[3, 4] = 1.0 / leg.base
    return _exponential(rates * leg.period)[:4]


def _exponential(x: Array) -> Array:
    """Return e^X: Taylor series of X/2ˢ with a norm ≤ ¼, squared s times."""
    squarings = max(int(np.ceil(np.log2(max(float(np.abs(x).sum(axis=1).max()), 1e-300)))) + 2, 0)
    term = total = np.eye(len(x))
    for k in range(1, 14):
        term = term @ x / (k * 2.0**squarings)
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total
