"""`penalty`: compliant terrain, spring and damper along the normal and regularised Coulomb friction  [ZD §7.5].

    f_N = max(0, −kp φ⁺ − kv N v⁺)  where φ ≤ 0, else 0      φ⁺ = φ + dt N v⁺
    f_T = −μ f_N u_T / √(|u_T|² + slip_speed²)           u_T = (S, T) v⁺
The right side is implicit, evaluated at the end of the step, so it is stable for all stiffness, damping and dt.
Newton's method solves for the 3n impulses. A fixed-point pass (friction as viscous drag with fixed coefficient) is the first
pass, and replaces every Newton step that does not reduce the residual. Typical: 1 to 5 passes.

Modelling error: a loaded contact sinks in by f_N / kp. A contact that should stick creeps at slip_speed · r / √(1 − r²),
where r is the used share of the friction limit. μ is limited to MU_CAP, also μ = ∞. With so much friction a leg can jam: the
law then has no solution or several, and the step ends with NOT_CERTIFIED.
"""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.library.kernels import compiled, entry
from idyn.library.records import Matrix, Vector
from idyn.solvers.linalg import affine, lu_factor, lu_solve, magnitude
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution

MU_CAP = 100.0  # friction coefficient used for infinite friction, the authors' value
AGREED = 1e-10  # the iteration stops when the residual of the law is below this share of the largest impulse
MOST_PASSES = 100  # largest number of passes of the iteration
SHORTEST = 1 / 32  # smallest share of a Newton step in the line search; below it a fixed-point pass follows
ROUNDING = 1e-12  # largest gap of a touching contact [m]
TOLERANCE = 1e-5  # largest residual of the law in a solved step, as a share of the largest impulse


class Penalty(Kind, frozen=True, tag="penalty"):
    """Springs and dampers with regularised friction."""

    kp: Positive = 11772.0  # stiffness [N/m], > 0; at the default the paper's robot sinks in by 1 mm on its four feet
    # damping [N·s/m], ≥ 0; the default is the authors' value. Critical damping of the paper's robot: 240
    kv: NonNegative = 100.0
    # speed at which friction reaches 71 % of its limit [m/s], > 0; smaller values reduce creep and need more passes
    slip_speed: Positive = 1e-3

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        space = contact_space(problem)
        if not space.regular:
            return no_solution(problem)
        a = space.problem
        kp, kv = self.materials(problem, len(a.mu))
        ground = Compliance(a.mu, a.gaps, a.dt * kp, a.dt * (kv + a.dt * kp), self.slip_speed)
        p, passes, error = compliant_impulses(space.D, space.b, a.J @ a.v, ground)
        solved = error <= TOLERANCE * np.abs(p).max(initial=0.0)
        return solution(space, p, Status.SOLVED if solved else Status.NOT_CERTIFIED, passes, error)

    def materials(self, problem: ForwardProblem, count: int) -> tuple[Array, Array]:
        """Return stiffness [N/m] and damping [N·s/m] of contacts and stops (count).

        The values of the problem apply to contacts with finite stiffness, the engine's own values to all others.
        """
        kp, kv = np.full(count, self.kp), np.full(count, self.kv)
        if problem.stiffness is not None and problem.dissipation is not None:
            soft = np.flatnonzero(np.isfinite(problem.stiffness))
            kp[soft] = problem.stiffness[soft]
            kv[soft] = problem.stiffness[soft] * problem.dissipation[soft]
        return kp, kv


class Compliance(NamedTuple):
    """Parameters of the law for one step (n)."""

    mu: Vector  # friction coefficients
    gaps: Vector  # φ [m]
    stiffness: Vector  # dt kp [N·s/m]
    damping: Vector  # dt (kv + dt kp) [kg]
    slip_speed: float  # [m/s]


@entry(Matrix, Vector, Vector, Compliance)
def compliant_impulses(D: Array, b: Array, u: Array, ground: Compliance) -> tuple[Array, int, float]:
    """Return impulses p (3n) that satisfy the law at D p + b, the passes, and the residual max |p − law(D p + b)| [N·s].

    u: initial guess of the contact velocities (3n)
    """
    p = _fixed_point(D, b, _law(u, ground)[1])
    best, least, moved = p, np.inf, np.empty(len(p))
    passes = 1
    while True:
        affine(D, p, b, moved)
        law, viscous, slope = _law(moved, ground)
        error = magnitude(p - law)
        if error < least:
            best, least = p, error
        if error <= AGREED * magnitude(p) or passes >= MOST_PASSES:
            return best, passes, least
        passes += 1
        # Newton step on p − law(D p + b) = 0, halved until the residual falls, else a fixed-point pass
        LU, order, _ = lu_factor(np.eye(len(p)) - _blocks(slope, D))
        step = lu_solve(LU, order, law - p)
        share = 1.0
        while share >= SHORTEST:
            trial = p + share * step
            affine(D, trial, b, moved)
            trial_error = magnitude(trial - _law(moved, ground)[0])
            if trial_error <= (1.0 - 0.1 * share) * error:
                break
            share /= 2.0
        p = trial if share >= SHORTEST else _fixed_point(D, b, viscous)


@compiled
def _fixed_point(D: Array, b: Array, viscous: Array) -> Array:
    """Return the solution of p = −(C (D p + b) + g), the law with fixed coefficients; viscous: C and g (2, 3n)."""
    A = np.eye(len(b))
    for i in range(len(b)):
        for j in range(len(b)):
            A[i, j] += viscous[0, i] * D[i, j]
    LU, order, _ = lu_factor(A)
    return lu_solve(LU, order, -(viscous[0] * b + viscous[1]))


@compiled
def _law(u: Array, ground: Compliance) -> tuple[Array, Array, Array]:
    """Return impulses p(u) (3n), C and g with p = −(C u + g) (2, 3n), and dp/du in one block per contact (n, 3, 3)."""
    mu, gaps, stiffness, damping, slip_speed = ground
    p, viscous, slope = np.zeros(len(u)), np.zeros((2, len(u))), np.zeros((len(mu), 3, 3))
    for i in range(len(mu)):
        s, t, n = 3 * i, 3 * i + 1, 3 * i + 2
        # p_N = −dt kp φ − dt (kv + dt kp) u_N
        normal = -stiffness[i] * gaps[i] - damping[i] * u[n]
        if gaps[i] > ROUNDING or normal <= 0.0:  # an open contact has neither spring nor damper force
            continue
        p[n] = normal
        viscous[0, n], viscous[1, n] = damping[i], stiffness[i] * gaps[i]
        slope[i, 2, 2] = -damping[i]
        # p_T = −μ p_N u_T / √(|u_T|² + slip_speed²) and its derivatives
        limit = min(mu[i], MU_CAP) * normal
        speed = np.sqrt(u[s] * u[s] + u[t] * u[t] + slip_speed * slip_speed)
        for a in range(2):
            p[s + a] = -limit * u[s + a] / speed
            viscous[0, s + a] = limit / speed
            slope[i, a, 2] = min(mu[i], MU_CAP) * damping[i] * u[s + a] / speed
            for c in range(2):
                slope[i, a, c] = limit * (u[s + a] * u[s + c] / speed**3 - (1.0 / speed if a == c else 0.0))
    return p, viscous, slope


@compiled
def _blocks(slope: Array, D: Array) -> Array:
    """Return diag(slope) D, the block diagonal of `slope` (n, 3, 3) times D (3n, 3n)."""
    m = D.shape[0]
    out = np.zeros((m, m))
    for i in range(m):
        for c in range(3):
            f = slope[i // 3, i % 3, c]
            if f != 0.0:
                for j in range(m):
                    out[i, j] += f * D[3 * (i // 3) + c, j]
    return out
