"""Friction of contacts against turning (condim 4 and 6): rows of angular velocity, and the moments along them.

MuJoCo's elliptic cone is Σ (f_j/μ_j)² ≤ f_n² with R_j = R_1 μ_1²/μ_j². In the rows ω_j μ_j/μ_1 it is round with μ_1 and R_1,
and the edges of a pyramid are n ± μ_1 times a row. So these rows extend the block of a contact, and its law remains that of
three rows.
"""

import numpy as np

from idyn.contact.soft import CONDIM, LEAST_FRICTION, ROLL, SPIN, SoftConstraints
from idyn.jit.compiled import compiled
from idyn.laws.mujoco.rows import sliding_friction
from idyn.terms.stages import Dynamics, Given, ReducedProblem
from idyn.types import Array


@compiled
def contact_rows(d: Dynamics, soft: SoftConstraints) -> Array:
    """Return the contact Jacobian: J itself (3n, nv), or with friction against turning blocks of six (6n, nv): S, T, N, and the
    relative angular velocities about s, t, n, scaled; zero for contacts without this friction."""
    if not soft.turns:
        return d.J
    g, J = d.given, np.zeros((2 * len(d.J), len(d.given.v)))
    for i in range(len(g.mu)):
        roll, spin = _scales(g, soft, i)
        J[6 * i : 6 * i + 3] = d.J[3 * i : 3 * i + 3]
        s, n, body, other = g.tangents[i], g.normals[i], g.model.support[g.bodies[i]], g.model.support[g.others[i]]
        t0, t1, t2 = n[1] * s[2] - n[2] * s[1], n[2] * s[0] - n[0] * s[2], n[0] * s[1] - n[1] * s[0]
        for j in range(len(g.v)):
            if body[j] != other[j]:
                sign, w = 1.0 if body[j] else -1.0, g.axes[j, 3:]
                J[6 * i + 3, j] = sign * roll * (s[0] * w[0] + s[1] * w[1] + s[2] * w[2])
                J[6 * i + 4, j] = sign * roll * (t0 * w[0] + t1 * w[1] + t2 * w[2])
                J[6 * i + 5, j] = sign * spin * (n[0] * w[0] + n[1] * w[1] + n[2] * w[2])
    return J


@compiled
def take_moments(problem: ReducedProblem, soft: SoftConstraints, J: Array, p: Array) -> Array:
    """Return the impulses in rows S, T, N (3n). Fill the problem's `moments`, and add their generalised forces to `load`.

    J (6n, nv), p (6n): of the rows of `contact_rows`
    """
    g, forces = problem.dynamics.given, np.empty(len(p) // 2)
    for i in range(len(g.mu)):
        roll, spin = _scales(g, soft, i)
        forces[3 * i : 3 * i + 3] = p[6 * i : 6 * i + 3]
        for k, scale in ((0, roll), (1, roll), (2, spin)):
            row = 6 * i + 3 + k
            problem.moments[3 * i + k] = scale * p[row]
            if p[row] != 0.0:
                for j in range(len(g.v)):
                    problem.load[j] += J[row, j] * p[row] / g.dt
    return forces


@compiled
def _scales(g: Given, soft: SoftConstraints, i: int) -> tuple[float, float]:
    """Return μ_roll/μ and μ_spin/μ of contact i [m], 0 without such friction."""
    row = soft.contacts[g.bodies[i]]
    if row[CONDIM] < 4.0:
        return 0.0, 0.0
    mu = sliding_friction(g, soft, i)
    return max(row[ROLL], LEAST_FRICTION) / mu if row[CONDIM] > 4.0 else 0.0, max(row[SPIN], LEAST_FRICTION) / mu
