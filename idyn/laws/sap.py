"""Compliant contact with known stiffness, dissipation and friction, as a convex program  [SAP §III–§V].

    min ½ ‖x‖² + ½ ‖γ(u)‖²_R        u = Y x + J v_free,  x = Lᵀ (v_u⁺ − v_u⁰)        γ(u) = argmin_{γ ∈ F} ‖γ − R⁻¹(v̂ − u)‖_R
    R_n = max(β² w / 4π², 1 / (dt k (dt + τ_d))),    R_t = σ w,    v̂_n = −φ / (dt + τ_d)

F is the round cone of μ, w = ‖J_i M⁻¹ J_iᵀ‖_F / 3. The joint motion is prescribed, so the program has nu unknowns for any
number of contacts. It is strongly convex: every demand is feasible and has one solution, with impulses γ(u), so projection and
selection are not needed. Newton's method with exact line search starts from the present velocity.

The law has its own ground material and applies to v⁺: the `Ground` of the options does not change it.

Modelling errors: k, τ_d and σ must be those of the ground, and gaps must be measured: forces depend stiffly on foot positions
(10 µm: 1 N at 10⁵ N/m). The normal force of a sliding contact is that of a gap smaller by (dt + τ_d) μ ‖v_T‖; a
sticking contact creeps at R_t f_T dt. Friction coefficients above `MOST_FRICTION`, including μ = ∞, are reduced to it.
"""

import numpy as np

from idyn.certificate.conditions import Conditions
from idyn.contact.ground import MOST_FRICTION, Material
from idyn.jit.compiled import compiled
from idyn.laws.compliant import THREE, minimise, start
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Start
from idyn.solvers.linalg import cholesky, forward
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array


class Sap(Law):
    """Compliant contact. material: stiffness, dissipation and friction of the ground"""

    name = "sap"
    conditions = Conditions.COMPLIANT
    round_cones = compliant = True

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, material: Material) -> None:
        self.material, self.kernel = material, sap_kernel


@compiled
def sap_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return p = γ(u) at the minimum, the only solution."""
    material = Material(law.stiffness, law.dissipation, law.beta, law.sigma, law.touching_only)
    p, status, steps = solve_compliant(problem, material)
    mu = problem.dynamics.given.mu
    return Attempt(p, Face(basis, law.directions, mu, False, law.directions[:0]), status, steps, basis, mu[:0], 0.0)


@compiled
def solve_compliant(problem: ReducedProblem, material: Material) -> tuple[Array, int, int]:
    """Minimise the cost over x. Return impulses (3n), status, and the number of Newton steps."""
    d = problem.dynamics
    Y, x = start(problem)
    return minimise(contact_laws(d, material), Y, d.J @ problem.v_free + d.drift, x, THREE)


@compiled
def contact_laws(d: Dynamics, material: Material) -> Array:
    """Return the law of each contact, see `idyn.laws.compliant` (n, 7). R_n = inf disables a contact: one with φ > 0 if
    `material.touching_only`, or one that no degree of freedom moves."""
    g = d.given
    n, nv, dt = len(g.mu), len(g.v), g.dt
    L, row, laws = g.M.copy(), np.empty((3, nv)), np.zeros((n, 7))
    cholesky(L)
    for i in range(n):
        # ‖J_i M⁻¹ J_iᵀ‖_F², with the rows of J_i L⁻ᵀ
        square = 0.0
        for r in range(3):
            for j in range(nv):
                row[r, j] = d.J[3 * i + r, j]
            forward(L, row[r])
            for e in range(r + 1):
                s = 0.0
                for j in range(nv):
                    s += row[r, j] * row[e, j]
                square += s * s if e == r else 2.0 * s * s
        # μ, R_t, R_n, v̂_n
        w, settle = np.sqrt(square) / 3.0, dt + material.dissipation
        laws[i, 0] = min(g.mu[i], MOST_FRICTION)
        laws[i, 1] = material.sigma * w
        laws[i, 2] = max(material.beta**2 * w / (4.0 * np.pi**2), 1.0 / (dt * material.stiffness * settle))
        laws[i, 3] = -g.gaps[i] / settle
        if w == 0.0 or (material.touching_only and g.gaps[i] > 0.0):
            laws[i, 2] = np.inf
    return laws
