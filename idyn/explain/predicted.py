"""Forces from joint accelerations alone: a law of soft, sticking contact says how the base moves and what the ground does.

Given q, v and the accelerations a_a of all joints but the root's, the root's equation and the points' accelerations are

    M_uu a_u = J_uᵀ f − M_ua a_a − h_u            c = J_u a_u + J_a a_a + J̇ v

and the forces f solve  min ½ fᵀ (D + R) f + fᵀ (b − R f₀)  in their friction pyramids, where D = J_u M_uu⁻¹ J_uᵀ and b is c
at f = 0: a point that carries has the acceleration c = −R (f − f₀), near zero: it sticks. R is the softness of the surface.
Rigid contacts (R → 0) would turn errors of measured accelerations of 1 m/s² into 10 % of the weight, and would make points
that rise carry. f₀ is the preload, in shares that make R f₀ the same for all points: over the whole motion the surface carries
the weight. It is the weight divided by the share of frames in which points may carry, and 0 in the others, as in flight.
Without it a soft surface always carries too little.
"""

import numpy as np
from scipy.optimize import nnls

from idyn.errors import InputError
from idyn.explain.distribution import pyramid
from idyn.explain.explanation import Explanation, Settings, Walker, carrying, concluded, paced_motion, shared
from idyn.explain.floor import Floor, find_floor
from idyn.explain.frames import Frames, Motion, frames_of
from idyn.explain.soles import feet_of
from idyn.model.robot import Robot
from idyn.motion.smoothing import Filter, smooth
from idyn.motion.storage import Table
from idyn.types import Array, Record

STIFFEST = 1e9
"""Points softer than this many times the softest possible carry nothing."""


LEAST_LOADED = 0.3
"""Least share of frames with carrying points for which the preload is increased; runners have 0.6 to 0.8."""


class Softness(Record, frozen=True):
    """Softness R = ρ · mean of D's diagonal · exp(h/h₀ + (s/s₀)²) of a point at height h and with speed s against the floor.

    share: ρ; fade: h₀ [m], each > 0
    slip, pace: s₀ is `slip` [m/s], or `pace` times the speed of the centre of mass where that is more, each > 0
    smooth: cutoff of the predicted forces at the cadence `STEPS`, with which it is scaled [Hz], > 0; inf: as predicted

    ρ was found on the first half of the walk of subject01 of Gait2354, h₀ and s₀ on all of it. Raises InputError for others.
    """

    share: float = 0.03
    fade: float = 0.02
    slip: float = 0.2
    pace: float = 0.16
    smooth: float = 6.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not value > 0.0:
                raise InputError(f"softness.{name}", f"expected a number > 0, got {value!r}")


def predict_forces(
    walker: Walker, table: Table, softness: Softness | None = None, settings: Settings | None = None
) -> Explanation:
    """Return the forces that a law of soft contact predicts for joint accelerations, shared between the feet as by `explain`.

    settings: as for `explain`, but the usual filter is OpenSim's. The residual is what the measured motion of the root would
    need beyond the forces. Raises the exceptions of `explain`.
    """
    settings, softness = settings or Settings(), softness or Softness()
    motion, pace = paced_motion(walker, table, settings.filter, Filter())
    feet = feet_of(walker.robot, settings.soles)
    frames = frames_of(walker.robot, walker.coordinates.root, feet, motion)
    floor = find_floor(frames, motion.time, settings.floor)
    forces = point_forces(walker, motion, frames, floor, softness, settings)
    required = _wrench(frames.points, forces)
    if np.isfinite(softness.smooth):
        required = smooth(motion.time, required, Filter(cutoff=pace * softness.smooth, order=2)).values
    wrenches = shared(frames._replace(required=required), floor, settings.distribution)
    return concluded(walker, motion, frames, wrenches, floor)


def point_forces(walker: Walker, motion: Motion, frames: Frames, floor: Floor, softness: Softness, settings: Settings) -> Array:
    """Return the predicted forces on the soles' points, in the world [N] (T, feet, n, 3)."""
    edges = pyramid(settings.distribution.mu, settings.distribution.edges)
    slips = np.linalg.norm(frames.speeds - floor.velocity, axis=-1)
    slip = max(softness.slip, softness.pace * floor.pace)
    exponents = (frames.points[..., 2] - floor.height) / softness.fade + (slips / slip) ** 2
    exponents = np.maximum(exponents, -2.0)  # a point below the floor is hard, not rigid
    root = np.array(walker.coordinates.root)
    loaded: Array = np.any(carrying(frames, floor, settings.distribution), axis=(1, 2))
    preload = walker.robot.weight / max(float(loaded.mean()), LEAST_LOADED)
    out = np.zeros_like(frames.points)
    for k in range(len(motion.time)):
        at = np.nonzero(exponents[k] < np.log(STIFFEST))
        if len(at[0]) == 0:
            continue
        D, b = _contact_terms(walker.robot, root, motion, frames, k, at)
        soft = softness.share * np.trace(D) / len(D) * np.exp(exponents[k][at])
        b[2::3] -= loaded[k] * preload / (1.0 / soft).sum()
        out[k][at] = _soft_forces(D + np.diag(np.repeat(soft, 3)), b, edges)
    return out


def _contact_terms(
    robot: Robot, root: Array, motion: Motion, frames: Frames, k: int, at: tuple[Array, ...]
) -> tuple[Array, Array]:
    """Return D (3n, 3n) and the free accelerations b (3n) of the points `at` of frame k."""
    q, v = motion.q[k], motion.v[k]
    known = motion.a[k].copy()
    known[root] = 0.0
    bias = robot.inverse_dynamics(q, v, known)[root]
    M = robot.terms(q, v).M[np.ix_(root, root)]
    rows, free = [], []
    for i, foot in enumerate(frames.feet):
        points = frames.points[k, i][at[1][at[0] == i]]
        moves = robot.tree.support[foot.joint][:, None] * frames.axes[k]
        J = moves[:, None, :3] + np.cross(moves[:, None, 3:], points)
        place, drift = robot.frames.placement(foot.frame, q), robot.frames.drift(foot.frame, q, v)
        arms, spin = points - place.translation, v @ moves[:, 3:]
        turning = np.cross(drift[3:], arms) + np.cross(spin, np.cross(spin, arms))
        rows.append(J[root].transpose(1, 2, 0).reshape(-1, len(root)))
        free.append((np.einsum("k,kpx->px", known, J) + drift[:3] + turning).ravel())
    J_u, c = np.concatenate(rows), np.concatenate(free)
    return J_u @ np.linalg.solve(M, J_u.T), c - J_u @ np.linalg.solve(M, bias)


def _soft_forces(H: Array, b: Array, edges: Array) -> Array:
    """Return the forces (n, 3) that minimise ½ fᵀ H f + fᵀ b in their pyramids, as least squares of the weights of edges."""
    L = np.linalg.cholesky(H)
    n = len(b) // 3
    weights, _ = nnls(L.T @ np.kron(np.eye(n), edges), -np.linalg.solve(L, b), maxiter=200 * n * edges.shape[1])
    return weights.reshape(n, -1) @ edges.T


def _wrench(points: Array, forces: Array) -> Array:
    """Return the sum of forces on points as wrenches about the origin (T, 6)."""
    return np.concatenate([forces, np.cross(points, forces)], axis=-1).sum(axis=(1, 2))
