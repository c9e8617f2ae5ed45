"""Free motion of `sap`: the velocity v* without contacts, and the Hessian A of ½ ‖v − v*‖²_A  [SAP §III-A, App. A].

    m(v) = M(q^θ) (v − v₀) − dt k(q^θ, v^θ) = 0 at v*          A = M + dt² θ θ_vq K + dt θ D
    q^θ = q₀ ⊕ θ dt v^θvq      v^θ = θ v + (1 − θ) v₀      v^θvq = θ_vq v + (1 − θ_vq) v₀
K and D are the stiffness and damping of the joints. Newton's method evaluates all other terms exactly, but A omits their
derivatives.

Difference from the paper: K = −∂k₁/∂q · N. (16) as printed contains θ_vq twice, which would halve the springs at midpoint.
"""

from typing import NamedTuple

import numpy as np

from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem, Springs
from sim_harness.engines.sap.assembly import Motion
from sim_harness.engines.sap.islands import backward_within, cholesky_within, forward_within, profile

AGREED = 1e-13
"""Newton's method for v* ends when its step is below this share of the largest velocity."""

MOST = 50
"""Largest number of Newton steps for v*. Typical: 3 to 6."""


class Scheme(NamedTuple):
    """Parameters of an integration scheme.

    theta: θ, fraction of the step at which forces are evaluated
    theta_vq: θ_vq, weight of the new velocity in the velocity that integrates the configuration
    """

    theta: float
    theta_vq: float

    def drift(self, v: Array, v0: Array) -> Array:
        """Return v^θvq (nv)."""
        return v if self.theta_vq == 1.0 else self.theta_vq * v + (1.0 - self.theta_vq) * v0


SCHEMES = {
    "explicit": Scheme(0.0, 0.0),
    "symplectic": Scheme(0.0, 1.0),
    "implicit": Scheme(1.0, 1.0),
    "midpoint": Scheme(0.5, 0.5),
}


def free_motion(problem: ForwardProblem, name: str) -> tuple[Motion, bool] | None:
    """Return the motion without contacts and whether Newton's method for v* converged; None when M is not positive definite.

    Raises ConfigError when the scheme needs other configurations and the problem has no `system`.
    """
    a, scheme = problem, SCHEMES[name]
    force = a.force - a.h
    if a.springs is not None:
        force -= a.springs.stiffness * a.springs.stretch + a.springs.damping * a.v
    first, L, v_star, regular = _euler(a.M, a.v, force, a.dt)
    if not regular:
        return None
    if scheme.theta == 0.0:
        return Motion(a.M, L, first, a.M, a.v, v_star), True
    if a.system is None:
        raise ConfigError("engine.scheme", f"expected 'symplectic' or 'explicit' for a problem without `system`, got {name!r}")
    v_star, A, found = _implicit(a, scheme, v_star)
    return Motion(a.M, L, first, A, a.v, v_star), found


@compiled
def _euler(M: Array, v: Array, force: Array, dt: float) -> tuple[Array, Array, Array, bool]:
    """Return the profile of M (nv), its factor (nv, nv), v + dt M⁻¹ force (nv), and whether M is positive definite."""
    first, L, v_star = profile(M), M.copy(), dt * force
    cholesky_within(L, first)
    for d in range(len(v)):
        if not 0.0 < L[d, d] < np.inf:
            return first, L, v_star, False
    forward_within(L, first, v_star)
    backward_within(L, first, v_star)
    v_star += v
    return first, L, v_star, True


def _implicit(problem: ForwardProblem, scheme: Scheme, v: Array) -> tuple[Array, Array, bool]:
    """Return v*, A at v*, and whether Newton's method converged; v: initial guess. A is the approximate Jacobian."""
    a, dt, (theta, theta_vq) = problem, problem.dt, scheme
    assert a.system is not None
    springs = a.springs or Springs(*(np.zeros_like(a.v) for _ in range(3)))
    weight = np.diag(dt * dt * theta * theta_vq * springs.stiffness + dt * theta * springs.damping)
    M, h = a.system.terms(np.zeros_like(a.v), a.v)
    more_M, more_h = a.M - M, a.h - h  # terms that were folded into the problem, added again below
    for _ in range(MOST):  # v ← v − A⁻¹ m(v)
        shift, v_theta = theta * dt * scheme.drift(v, a.v), theta * v + (1.0 - theta) * a.v
        M, h = a.system.terms(shift, v_theta)
        M, h = M + more_M, h + more_h
        A = M + weight
        force = a.force - h - springs.stiffness * (springs.stretch + shift) - springs.damping * v_theta
        if not np.isfinite(force).all():
            return v, A, False
        step = np.linalg.solve(A, dt * force - M @ (v - a.v))
        v = v + step
        if np.abs(step).max() <= AGREED * np.abs(v).max():
            return v, A, True
    return v, A, False
