"""`penalty`: spring and damper along the normal, regularised Coulomb friction across it: compliant terrain  [ZD §7.5].

    f_N = max(0, −kp φ⁺ − kv N v⁺)  where φ ≤ 0, else 0      φ⁺ = φ + dt N v⁺
    f_T = −μ f_N u_T / √(|u_T|² + slip_speed²)           u_T = (S, T) v⁺
All else on the right is taken at the end of the step, so stiffness and damping never make it unstable, at any dt.
Solved by Newton's method in the 3n impulses, with a fixed-point pass (friction as viscous drag, its coefficient held)
to begin with and wherever Newton's step does not bring law and impulses nearer. Usual: 1 to 5 passes.

Modelling error: a loaded contact sinks in by f_N / kp; one that ought to stick creeps at slip_speed · r / √(1 − r²),
where r is the share of the friction limit in use. μ above MU_CAP, so also μ = ∞, is taken for MU_CAP; with so much
friction a leg can jam, the law then has no solution or several, and the step ends with NOT_CERTIFIED.
"""

from typing import NamedTuple

import numpy as np

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.jit.compiled import compiled
from idyn.solvers.linalg import lu_factor, lu_solve
from idyn.status import Status
from idyn.types import Array
from sim_harness.engines.contact_space import contact_space, no_solution, solution
from sim_harness.engines.engine import ForwardProblem, ForwardSolution

MU_CAP = 100.0
"""The authors' stand-in for infinite friction."""

AGREED = 1e-10
"""The iteration stops when the impulses agree with the law to this share of the largest."""

MOST_PASSES = 100
"""Of the iteration."""

SHORTEST = 1 / 32
"""Newton steps are halved down to this share before the fixed-point pass takes over."""

ROUNDING = 1e-12
"""A contact apart by no more touches [m]."""

TOLERANCE = 1e-5
"""Share of the largest impulse by which a step that counts as solved may disagree with the law."""


class Penalty(Kind, frozen=True, tag="penalty"):
    """Settings of the engine.

    kp: stiffness [N/m], > 0; the default lets the paper's robot sink in by 1 mm on its four feet
    kv: damping [N·s/m], ≥ 0; the authors' value. Critical for the paper's robot: 240
    slip_speed: speed at which friction reaches 71 % of its limit [m/s], > 0; less sticks better, takes more passes
    """

    kp: Positive = 11772.0
    kv: NonNegative = 100.0
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
        """Stiffness [N/m] and damping [N·s/m] of the contacts, of which there are `count` with the stops (count): those of what
        touches where that has a stiffness, else the engine's own."""
        kp, kv = np.full(count, self.kp), np.full(count, self.kv)
        if problem.stiffness is not None and problem.dissipation is not None:
            soft = np.flatnonzero(np.isfinite(problem.stiffness))
            kp[soft] = problem.stiffness[soft]
            kv[soft] = problem.stiffness[soft] * problem.dissipation[soft]
        return kp, kv


class Compliance(NamedTuple):
    """Of the contacts (n): friction, gaps, and their springs for one step: stiffness [N·s/m] and damping [kg] times dt; slip
    speed [m/s]."""

    mu: Array
    gaps: Array
    stiffness: Array
    damping: Array
    slip_speed: float


@compiled
def compliant_impulses(D: Array, b: Array, u: Array, ground: Compliance) -> tuple[Array, int, float]:
    """Impulses p (3n) that obey the law at u = D p + b, passes, and the disagreement max |p − law(u)| left [N·s].

    u: contact velocities from which to start (3n).
    """
    p = _fixed_point(D, b, _law(u, ground)[1])
    best, least = p, np.inf
    passes = 1
    while True:
        law, viscous, slope = _law(D @ p + b, ground)
        error = _largest(p - law)
        if error < least:
            best, least = p, error
        if error <= AGREED * _largest(p) or passes >= MOST_PASSES:
            return best, passes, least
        passes += 1
        # Newton's step on p − law(D p + b) = 0, halved until it gains; where none does, a fixed-point pass
        LU, order, _ = lu_factor(np.eye(len(p)) - _blocks(slope, D))
        step = lu_solve(LU, order, law - p)
        share = 1.0
        while share >= SHORTEST:
            trial = p + share * step
            trial_error = _largest(trial - _law(D @ trial + b, ground)[0])
            if trial_error <= (1.0 - 0.1 * share) * error:
                break
            share /= 2.0
        p = trial if share >= SHORTEST else _fixed_point(D, b, viscous)


@compiled
def _fixed_point(D: Array, b: Array, viscous: Array) -> Array:
    """The p with p = −(C (D p + b) + g): the law with its coefficients held. `viscous` is C and g (2, 3n)."""
    A = np.eye(len(b))
    for i in range(len(b)):
        for j in range(len(b)):
            A[i, j] += viscous[0, i] * D[i, j]
    LU, order, _ = lu_factor(A)
    return lu_solve(LU, order, -(viscous[0] * b + viscous[1]))


@compiled
def _law(u: Array, ground: Compliance) -> tuple[Array, Array, Array]:
    """Impulses p(u) (3n); C and g with p = −(C u + g) (2, 3n); dp/du, one block per contact (n, 3, 3)."""
    mu, gaps, stiffness, damping, slip_speed = ground
    p, viscous, slope = np.zeros(len(u)), np.zeros((2, len(u))), np.zeros((len(mu), 3, 3))
    for i in range(len(mu)):
        s, t, n = 3 * i, 3 * i + 1, 3 * i + 2
        normal = -stiffness[i] * gaps[i] - damping[i] * u[n]
        if gaps[i] > ROUNDING or normal <= 0.0:  # nothing acts at a distance, dampers included
            continue
        p[n] = normal
        viscous[0, n], viscous[1, n] = damping[i], stiffness[i] * gaps[i]
        slope[i, 2, 2] = -damping[i]
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
    """Block diagonal of `slope` times D (3n, 3n)."""
    m = D.shape[0]
    out = np.zeros((m, m))
    for i in range(m):
        for c in range(3):
            f = slope[i // 3, i % 3, c]
            if f != 0.0:
                for j in range(m):
                    out[i, j] += f * D[3 * (i // 3) + c, j]
    return out


@compiled
def _largest(x: Array) -> float:
    worst = 0.0
    for value in x:
        worst = max(worst, abs(value))
    return worst
