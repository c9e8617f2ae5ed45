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

Friction against turning (condim 4, 6) adds rows and moments of contacts, see `idyn.laws.mujoco.rows`.

Modelling errors: integrators Euler, implicitfast and implicit only. Closed chains and friction of joints without motors are
not supported.
"""

import numpy as np

from idyn.certificate.conditions import Conditions
from idyn.contact.ground import RIGID
from idyn.contact.soft import Soft, SoftConstraints, check
from idyn.jit.compiled import compiled
from idyn.laws.compliant import CONVERGED, SIX, THREE, minimise, start
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Start
from idyn.laws.mujoco.rows import contact_rows, fill_contacts, free_joint_terms, joint_terms, take_moments
from idyn.solvers.linalg import backward, forward, forward_rows
from idyn.status import SOLVED
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

MOST_ROUNDS = 50
"""Maximum number of rounds for the integrator `implicit`. Usual: 5 to 8."""


class Mujoco(Law):
    """MuJoCo's soft contact. soft: its parameters"""

    name = "mujoco"
    conditions = Conditions.SOFT
    round_cones = compliant = midway = takes_torques = True
    material = RIGID._replace(drift=False)

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, soft: Soft) -> None:
        """Raises ConfigError for parameters that MuJoCo does not accept."""
        check(soft)
        self.soft, self.kernel = soft, mujoco_kernel


@compiled
def mujoco_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return the impulses at the minimum, the only solution, and fill `problem.load`; with friction against turning also
    `problem.moments`."""
    g, soft, J = problem.dynamics.given, law.soft, contact_rows(problem.dynamics, law.soft)
    laws, aim, motion = np.empty((len(g.mu), 7)), np.zeros(len(J)), np.zeros(len(g.v))
    fill_contacts(g, soft, J, laws, aim)
    Y, x = start(problem)
    if soft.turns:
        Y = _projected(problem, J)
    # motion = dt a for x = 0:  v_free − v + dt (s + e)
    free_joint_terms(g, motion)
    for j in range(len(motion)):
        motion[j] += problem.v_free[j] - g.v[j]
    before = 0
    if soft.implicit:
        before = _add_implicit_terms(problem, soft, (laws, Y, J, aim), motion, x)
    elif soft.resists:
        joint_terms(problem, soft, motion.copy(), motion)
    b = J @ motion - aim
    p, status, steps = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
    if soft.turns:
        p = take_moments(problem, soft, J, p)
    return Attempt(
        p, Face(basis, law.directions, g.mu, False, law.directions[:0]), status, before + steps, basis, g.mu[:0], 0.0
    )


@compiled
def _add_implicit_terms(
    problem: ReducedProblem, soft: SoftConstraints, contacts: tuple[Array, Array, Array, Array], motion: Array, x: Array
) -> int:
    """Fill `load` and add dt e to `motion` for the integrator `implicit`, by fixed-point iteration: e and the load follow from
    the acceleration a' of the step, and this from the convex problem with them. A round gains the factor h ‖M⁻¹ ∂h/∂v‖. Return
    the number of Newton steps.

    contacts: (laws, Y, J, dt a_ref); motion: dt a for x = 0 without e (nv), becomes that with e and the effect of the load
    x: start, becomes the minimum (nu)
    """
    (laws, Y, J, aim), g, u = contacts, problem.dynamics.given, problem.dynamics.given.model.u
    free, change, before, y, steps = motion.copy(), motion.copy(), np.inf, np.empty(len(u)), 0
    for _ in range(MOST_ROUNDS):
        # dt a = v_free − v + dt (s + e) + dt M_uu⁻¹ load_u
        motion[:] = 0.0
        joint_terms(problem, soft, change, motion)
        for i in range(len(u)):
            y[i] = g.dt * problem.load[u[i]]
        forward(problem.L, y)
        backward(problem.L, y)
        shifted = free.copy()
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        motion += shifted
        b = J @ motion - aim
        _, status, more = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
        steps += more
        # dt a' = the same without e, plus L⁻ᵀ x
        y[:] = x
        backward(problem.L, y)
        moved, largest = 0.0, 0.0
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        for j in range(len(change)):
            moved, largest = max(moved, abs(shifted[j] - change[j])), max(largest, abs(shifted[j]))
        change[:] = shifted
        if moved <= CONVERGED * largest or not moved < before or status != SOLVED:
            break
        before = moved
    return steps


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
