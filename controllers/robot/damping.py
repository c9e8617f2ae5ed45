"""Damping of the joints that is stable in discrete time, and gains of the drives."""

from collections.abc import Collection

import numpy as np

from controllers.config.loading import NonNegative, Settings
from idyn.model.robot import Robot
from idyn.types import Array, Record

FASTEST = 1.6  # largest eigenvalue of dt M⁻¹ D; from 2 on, motion grows
DELAYED = 0.5  # largest share of the speed of a joint that a feedback takes in a period: from 1 on, late torques add motion
LEAST_SHARE = 0.15  # of a feedback, whatever the delay: a robot whose rotors are large and real stands by it


def damping_gains(damping: float, robot: Robot, q: Array, dt: float) -> Array:
    """Return the damping of each actuated joint [N·m·s/rad] (na): `damping`, or less for joints with a small inertia.

    The torque −D q̇ is held for dt [s], so that v⁺ = (1 − dt M⁻¹ D) v, with the M of the configuration q. A joint alone at most
    stops within dt: d ≤ 1/(dt (M⁻¹)_jj). All joints together decay, at least at the rate of `FASTEST`.
    """
    M = robot.terms(q, np.zeros(robot.nv)).M
    mobility: Array = dt * np.linalg.inv(M)[np.ix_(robot.tree.a, robot.tree.a)]
    gains = np.minimum(damping, 1.0 / np.diag(mobility))
    fastest = float(np.abs(np.linalg.eigvals(mobility * gains)).max(initial=0.0))
    return gains * min(1.0, FASTEST / fastest) if fastest > 0.0 else gains


def carried(damping: float, robot: Robot, q: Array, dt: float) -> Array:
    """Return the share of feedback gains that the inertia of each actuated joint carries, at most 1 (na): that by which the
    damping d [N·m·s/rad] fulfils d dt (M⁻¹)_jj ≤ `DELAYED`, with the M of the configuration q."""
    M = robot.terms(q, np.zeros(robot.nv)).M
    taken: Array = damping * dt * np.diag(np.linalg.inv(M))[robot.tree.a]
    return DELAYED / np.maximum(taken, DELAYED)


def carried_late(gains: tuple[float, float], robot: Robot, q: Array, dt: float, ticks: int) -> Array:
    """Return the shares of feedback gains on torque as `carried` does, by the age of the torques [ticks] (ticks + 1, na).

    Where torques are n periods late, v⁺ = v − c v(t − n) decays for c < 2 sin(π/(4n + 2)). Half of this is for the damping of
    torque and of demand together on links without rotors, (d + K_d/(M⁻¹)_jj) dt (M₀⁻¹)_jj: rotors of the model may be absent.

    gains: d [N·m·s/rad] and K_d [1/s]
    """
    damping, demand = gains
    bare = robot.variant(armature=0.0)
    own, links = (np.diag(np.linalg.inv(each.terms(q, np.zeros(robot.nv)).M))[robot.tree.a] for each in (robot, bare))
    shares = [carried(damping, robot, q, dt)]
    for n in range(1, ticks + 1):
        left = np.sin(np.pi / (4 * n + 2)) / (dt * links) - demand / own
        shares.append(np.clip(left / max(damping, 1e-12), LEAST_SHARE * shares[0], shares[0]))
    return np.array(shares)


PERIOD = 1e-3  # largest period of the drives [s]


class DriveSettings(Settings, frozen=True):
    """Drive gains of every joint that follows the reference, sent beside the torque: τ + kp (q_ref(t) − q) + kd (q̇_ref(t) − q̇).

    They act while replies are missing; else the controller computes the feedback, from the state of the whole robot. Both 0: no
    gains are sent; in an outage, the drives only damp.
    """

    # [N·m/rad]; it must support the robot without feed-forward torque: the robot's weight times the height of its hips, or a
    # little more
    kp: NonNegative = 0.0
    # [N·m·s/rad]. Joints whose inertia is too small for it have a share of both gains, see `controllers.robot.damping`
    kd: NonNegative = 0.0


class DriveGains(Record, frozen=True):
    """Drive gains of each motor: kp [N·m/rad] and kd [N·m·s/rad] (na)."""

    kp: Array
    kd: Array


def drive_gains(settings: DriveSettings, robot: Robot, q: Array, gripping: Collection[str]) -> DriveGains | None:
    """Return the gains of all motors, or None if both gains are 0.

    q: configuration whose inertia carries them; gripping: joints that do not follow the reference; their gains are 0
    Joints with several degrees of freedom have kp = 0: a drive cannot subtract their positions.
    """
    if settings.kp == settings.kd == 0.0:
        return None
    follows = np.array([name not in gripping for name in robot.joint_names], dtype=np.float64)
    follows *= carried(settings.kd, robot, q, PERIOD)
    return DriveGains(kp=settings.kp * follows * (robot.tree.q_index >= 0), kd=settings.kd * follows)
