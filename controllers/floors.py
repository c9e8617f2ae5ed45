"""Map of the floors on which a controller stands without oscillating, from the linearised vertical leg."""

import msgspec
import numpy as np

from controllers.config.loading import Settings
from controllers.controller import Controller
from controllers.settings import PidSettings
from idyn.laws import MujocoLawSettings, SapSettings
from idyn.terms.dynamics import contact_jacobian
from idyn.types import Array

DAMPINGS = np.concatenate([[0.0], np.geomspace(1.0, 1e4, 41)])  # dampings of the floor that are tried [N·s/m]
STABLE = 1.0 + 1e-9  # largest magnitude of an eigenvalue of a stable loop


class VerticalLeg(Settings, frozen=True):
    """A leg under its share of the robot, and its controller."""

    base: float  # m_b [kg]
    foot: float  # m_f [kg]
    kp: float  # K_p [1/s²]
    kd: float  # K_d [1/s]
    torque_kp: float = 0.0  # k_τ [N/m]
    torque_kd: float = 0.0  # d_τ [N·s/m]
    relaxation: float = 0.05  # T_r [s]; 0: dt
    memory: float = 0.005  # T_p [s]
    period: float = 0.001  # dt [s]


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
    from scipy.linalg import expm  # noqa: PLC0415  (only `idyn check` and the start of a server need it)

    return np.array(expm(rates * leg.period)[:4])


STIFFNESSES = (1e3, 1e4, 1e5, 1e6)  # stiffness of the floor per foot [N/m]
DELAYS = (0, 1, 2, 3, 4, 5)  # actuation delays [ticks]
LIGHT = 10.0 / 1.2  # a lightly damped floor, by the share of the robot of a foot [N·s/(m kg)]: 10 N·s/m for the quadruped

USUAL = {"period": ("period", 0.001), "relaxation": ("ground.relaxation", 0.05), "memory": ("ground.memory", 0.005)}
"""Fields of the leg → their settings, and values with which robots stand on all floors [s]."""

Map = dict[int, tuple[float, ...]]


def floor_map(controller: Controller) -> tuple[Map, float] | None:
    """Return the least stable damping of the floor per foot [N·s/m] by delay and stiffness, and that of a lightly damped floor.

    None if the model does not apply: no free base on feet, or a law that knows no relaxation.
    """
    leg = _leg_of(controller)
    if leg is None:
        return None
    found = {delay: tuple(critical_damping(leg, k, delay) for k in STIFFNESSES) for delay in DELAYS}
    return found, LIGHT * (leg.base + leg.foot)


def floor_text(found: Map, light: float) -> tuple[str, str]:
    """Return the map as a table, and a warning about lightly damped floors, '' if the loop is stable on them."""
    lines = ["least damping of the floor per foot [N·s/m] with which the robot stands without oscillating,"]
    lines.append("by delay of the torques [ticks] and stiffness of the floor [N/m]:")
    lines.append("  delay " + "".join(f"{k:>9.0e}" for k in STIFFNESSES))
    for delay, row in found.items():
        lines.append(f"  {delay:>5} " + "".join(f"{'never' if np.isinf(d) else format(d, '.3g'):>9}" for d in row))
    bad = [delay for delay, row in found.items() if max(row) > light]
    if not bad:
        return "\n".join(lines), ""
    ticks = ", ".join(map(str, bad))
    floor = f"on a lightly damped floor ({light:.3g} N·s/m per foot)"
    return "\n".join(lines), f"if torques act {ticks} ticks late, the robot may oscillate {floor}"


def floor_warning(controller: Controller) -> str:
    """Return on which lightly damped floor a controller may oscillate even without delay, and which of its settings cause it;
    '' if on none.

    The cause is a setting with whose usual value the loop is stable, else several of them together, else the feedback.
    """
    leg = _leg_of(controller)
    stiffness = None if leg is None else _oscillating(leg)
    if leg is None or stiffness is None:
        return ""
    usual = {field: value for field, (_, value) in USUAL.items() if getattr(leg, field) != value}
    causes = [each for each in usual if _oscillating(msgspec.structs.replace(leg, **{each: usual[each]})) is None]
    if not causes and _oscillating(msgspec.structs.replace(leg, **usual)) is None:
        causes = list(usual)
    why = " and ".join(f"{USUAL[each][0]} = {getattr(leg, each):g} s (stable with {usual[each]:g} s)" for each in causes)
    why = why or f"feedback.kp = {leg.kp:g}, feedback.kd = {leg.kd:g} on a foot of {leg.foot:.3g} kg (with armature)"
    light = LIGHT * (leg.base + leg.foot)
    return f"{why}: on a floor of {stiffness:.0e} N/m and {light:.3g} N·s/m per foot the robot may oscillate, see `idyn check`"


def _oscillating(leg: VerticalLeg) -> float | None:
    """Return the softest floor [N/m] on which the loop without delay is unstable at light damping; None without any."""
    light = LIGHT * (leg.base + leg.foot)
    return next((k for k in STIFFNESSES if critical_damping(leg, k, 0) > light), None)


def _leg_of(controller: Controller) -> VerticalLeg | None:
    """Return the leg of a robot that stands: its share of the mass, and the mean over its feet of what the floor feels of it.

    The foot's mass is (J M⁻¹ Jᵀ)⁻¹ along the normal, with the base held. Gains on joint torques count as −J⁻ᵀ K J⁻¹.
    None: no free base, feet that the joints cannot move, or a law that knows no relaxation.
    """
    robot, settings, a = controller.robot, controller.settings, controller.robot.tree.a
    contacts = controller.contacts(controller.stance, robot.contact_names)
    lawless = isinstance(settings.law, PidSettings | SapSettings | MujocoLawSettings)
    if lawless or not robot.floating or not len(contacts):
        return None
    at = robot.terms(controller.stance, np.zeros(robot.nv))
    J = contact_jacobian(robot, at, contacts)[2::3][:, a]
    mobility = np.diag(J @ np.linalg.solve(at.M[np.ix_(a, a)], J.T))
    if not (mobility > 0.0).all():
        return None
    foot, share, ground = float((1.0 / mobility).mean()), robot.total_mass / len(contacts), settings.ground.build()
    leverage = float((1.0 / (J**2).sum(axis=1)).mean())
    return VerticalLeg(
        base=max(share - foot, 0.1 * share),
        foot=foot,
        kp=settings.feedback.kp,
        kd=settings.feedback.kd,
        torque_kp=settings.torque_feedback.kp * leverage,
        torque_kd=settings.torque_feedback.kd * leverage,
        relaxation=ground.relaxation,
        memory=ground.memory,
        period=settings.period,
    )
