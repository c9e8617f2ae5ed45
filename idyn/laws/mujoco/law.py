"""MuJoCo's soft contact with the joint motion prescribed: on a described model, the forces are those of MuJoCo's next step.

    min_x ½ xᵀ M_uu x + gᵀ x + Σ s_i(J_u x + c),     f = −∂s(J a − a_ref),     a = (v⁺ − v)/dt + s,   s = (ω × v_lin, 0)

MuJoCo minimises ½ (a − a⁰)ᵀ M (a − a⁰) + s(J a − a_ref) over all accelerations a. With the joints' part given, the rows without
motors are the stationarity of a problem in the others alone; those with motors give the torques. So nothing is approximated:
under these torques a is MuJoCo's own, unique minimiser. In impulses, p = dt f, the program is that of `idyn.laws.compliant`,
with R of `idyn.laws.mujoco.rows`. Elliptic cones: R_t = R_n/impratio. It is strongly convex: every demand is feasible and has
one solution, so that projection and selection are not needed. Dry friction, damping and limits of joints are functions of the
demand; they change the torques only.

The period of the prediction must be MuJoCo's time step, contact points are MuJoCo's (halfway between the surfaces), and the
`Ground` of the options does not matter. It is a law for simulators and their twins: the ground of real robots is not known to
10 µm, which changes forces by up to 5 % of the weight where feet touch down.

Friction against turning (condim 4, 6) adds rows and moments of contacts, see `idyn.laws.mujoco.turning`.

Modelling errors: integrators Euler and implicitfast only. Closed chains and friction of joints without motors are not
supported.
"""

import numpy as np

from idyn.contact.ground import RIGID
from idyn.jit.compiled import compiled
from idyn.laws.compliant import SIX, THREE, minimise, start
from idyn.laws.law import Attempt, Face, LawData, Rung, Start, polygon
from idyn.laws.mujoco.parameters import Soft, check
from idyn.laws.mujoco.rows import fill_contacts, free_joint_terms, joint_terms
from idyn.laws.mujoco.turning import contact_rows, take_moments
from idyn.solvers.linalg import forward_rows
from idyn.status import Conditions
from idyn.terms.stages import ReducedProblem
from idyn.types import Array


class Mujoco:
    """MuJoCo's soft contact. soft: its parameters"""

    name = "mujoco"
    conditions = Conditions.SOFT
    unlimited_friction = False
    max_pivots = 0
    directions = polygon(4)
    basis_width = 0
    basis_type: np.dtype = np.dtype(np.bool_)
    material = RIGID

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, soft: Soft) -> None:
        """Raises ConfigError for parameters that MuJoCo does not accept."""
        check(soft)
        self.soft, self.kernel = soft, mujoco_kernel

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))


@compiled
def mujoco_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return the impulses at the minimum, the only solution, and fill `problem.load`; with friction against turning also
    `problem.moments`."""
    g, soft, J = problem.dynamics.given, law.soft, contact_rows(problem.dynamics, law.soft)
    laws, aim, motion = np.empty((len(g.mu), 7)), np.zeros(len(J)), np.zeros(len(g.v))
    # motion = dt a for x = 0:  v_free − v + dt (s + e)
    free_joint_terms(g, motion)
    if soft.resists:
        joint_terms(problem, soft, motion)
    for j in range(len(motion)):
        motion[j] += problem.v_free[j] - g.v[j]
    fill_contacts(g, soft, J, laws, aim)
    Y, x = start(problem)
    if soft.turns:
        p, status, steps = minimise(laws, _projected(problem, J), J @ motion - aim, x, SIX)
        p = take_moments(problem, soft, J, p)
    else:
        p, status, steps = minimise(laws, Y, J @ motion - aim, x, THREE)
    return Attempt(p, Face(basis, law.directions, g.mu, False, law.directions[:0]), g.mu[:0], status, steps)


@compiled
def _projected(problem: ReducedProblem, J: Array) -> Array:
    """Return J_u L⁻ᵀ (rows, nu)."""
    u = problem.dynamics.given.model.u
    Y = np.empty((len(J), len(u)))
    for row in range(len(J)):
        for k in range(len(u)):
            Y[row, k] = J[row, u[k]]
    forward_rows(problem.L, Y)
    return Y
