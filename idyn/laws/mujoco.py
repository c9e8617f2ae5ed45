"""MuJoCo's soft contact with the joint motion prescribed: on a described model, the forces are those of MuJoCo's next step
(MATHEMATICS §3.6). The program is that of `idyn.laws.sap`, with the rows of `idyn.laws.mujoco_rows`. It is a law for
simulators and their twins: dt must be MuJoCo's time step; closed chains and friction of joints without motors are not
supported."""

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.contact import soft as column
from idyn.contact.ground import RIGID
from idyn.contact.soft import Soft, SoftConstraints, check
from idyn.laws.law import Attempt, Face, Law, LawData, Rung, Start
from idyn.laws.mujoco_rows import (
    LEAST_R,
    contact_rows,
    fill_contacts,
    free_joint_terms,
    impedance,
    implicit_part,
    joint_terms,
    spring,
    take_moments,
)
from idyn.laws.sap import CONVERGED, SIX, THREE, minimise, start
from idyn.library.kernels import compiled, entry
from idyn.library.records import Flags, Vector, written
from idyn.solvers.linalg import (
    affine,
    apply,
    axpy,
    backward,
    cholesky,
    copy,
    copy_rows,
    dot,
    fill,
    forward,
    forward_rows,
    lu_factor,
    lu_solve,
)
from idyn.status import SOLVED
from idyn.terms.stages import Given, ReducedProblem
from idyn.types import Array

MOST_ROUNDS = 50  # most rounds with an implicit step; each leaves the share h D/(M + h D) of the error; usual: 4 to 8
ROWS = 3  # constraints of a joint: dry friction, and both ends of its range


@entry(ReducedProblem, SoftConstraints, Vector, Vector, Flags, written(Vector))
def joint_accelerations(
    problem: ReducedProblem, soft: SoftConstraints, asked: Array, tau: Array, given: Array, out: Array
) -> bool:
    """Fill the accelerations of the step, of the actuated joints [rad/s²] (na). Return whether Newton's method has converged.

    problem: its dynamics are filled; asked: demand (na); tau: torques [N·m] (na)
    given: which joints have the torque `tau`; the others meet the demand (na)
    """
    g, before, least, implicit = problem.dynamics.given, asked.copy(), np.inf, soft.damped or soft.implicit
    for _ in range(MOST_ROUNDS):
        change, status = _before_step(problem, soft, before, tau, given)
        if implicit:
            change = _after_step(g, soft, change)
        missed = 0.0
        for k in range(len(out)):
            out[k] = change[g.model.a[k]]
            if not given[k]:
                missed = max(missed, abs(asked[k] - out[k]))
                before[k] += asked[k] - out[k]
        if not implicit or missed == 0.0 or not missed < least:  # until it consists of rounding errors
            break
        least = missed
    return status == SOLVED


@compiled
def _before_step(problem: ReducedProblem, soft: SoftConstraints, asked: Array, tau: Array, given: Array) -> tuple[Array, int]:
    """Return the accelerations before the step (nv), and the status of Newton's method.

    asked: those of the joints that are not `given` (na); tau, given: see `joint_accelerations`
    """
    g = problem.dynamics.given
    nv, unknown = len(g.v), _unknown(g, given)
    # v_free: motion without constraints; L of M_xx
    v_free, L = _free(g, soft, unknown, asked, tau)
    # contacts, then three rows of each joint with a given torque
    contacts, joints, width = len(g.mu), unknown[unknown >= 0], 6 if soft.turns else 3
    acts, touching = g.model.a[given], contact_rows(problem.dynamics, soft)
    count = contacts + ROWS * len(acts)
    laws, aim, drift, J = np.zeros((count, 7)), np.zeros(width * count), np.zeros(nv), np.zeros((width * count, nv))
    copy_rows(touching, J[: len(touching)])
    fill_contacts(g, soft, touching, laws[:contacts], aim[: len(touching)])
    for k in range(len(acts)):
        first = contacts + ROWS * k
        _fill_joint(g, soft, acts[k], laws[first : first + ROWS], aim[width * first :], J[width * first :])
    free_joint_terms(g, drift)
    Y, x = np.empty((width * count, len(joints))), np.zeros(len(joints))
    for row in range(len(Y)):
        for i in range(len(joints)):
            Y[row, i] = J[row, joints[i]]
        forward(L, Y[row])
    for i in range(len(x)):
        for k in range(i, len(x)):
            x[i] += L[k, i] * (g.v[joints[k]] - v_free[joints[k]])
    b = np.empty(len(J))
    affine(J, v_free - g.v + drift, -aim, b)
    _, status, _ = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
    # v⁺ = v_free + L⁻ᵀ x
    backward(L, x)
    for i in range(len(x)):
        v_free[joints[i]] += x[i]
    return (v_free - g.v + drift) / g.dt, status


@compiled
def _unknown(g: Given, given: Array) -> Array:
    """Return the indices of the unknown velocities, −1 elsewhere (nv)."""
    unknown = np.full(len(g.v), -1)
    for j in g.model.u:
        unknown[j] = j
    for k in range(len(given)):
        if given[k]:
            unknown[g.model.a[k]] = g.model.a[k]
    return unknown


@compiled
def _free(g: Given, soft: SoftConstraints, unknown: Array, asked: Array, tau: Array) -> tuple[Array, Array]:
    """Return v⁺ without constraints (nv), and the factor L of M_xx."""
    x, nv = unknown[unknown >= 0], len(g.v)
    known, force, v_free = np.zeros(nv), -g.h, g.v.copy()
    for k in range(len(asked)):
        j = g.model.a[k]
        force[j] += tau[k] - soft.joints[j, column.DAMPING] * g.v[j]
        if unknown[j] < 0:
            known[j] = asked[k]
            v_free[j] += g.dt * asked[k]
    L, change = np.empty((len(x), len(x))), np.empty(len(x))
    for i in range(len(x)):
        change[i] = force[x[i]] - dot(g.M[x[i]], known)
        for k in range(len(x)):
            L[i, k] = g.M[x[i], x[k]]
    cholesky(L)
    forward(L, change)
    backward(L, change)
    for i in range(len(x)):
        v_free[x[i]] += g.dt * change[i]
    return v_free, L


@compiled
def _fill_joint(g: Given, soft: SoftConstraints, j: int, laws: Array, aim: Array, J: Array) -> None:
    """Fill the laws of the joint with velocity j: dry friction, then the ends of its range; aim and J from its first row on."""
    row, h, v, q, width = soft.joints[j], g.dt, g.v[j], g.q[soft.q_index[j]], 6 if soft.turns else 3
    for k in range(ROWS):
        laws[k, 1] = laws[k, 2] = np.inf
    if row[column.LOSS] > 0.0:
        imp = impedance(row, column.LOSS_SOLIMP, 0.0)
        _, b = spring(row, column.LOSS_SOLREF, column.LOSS_SOLIMP, h)
        laws[0, 0], laws[0, 2] = -h * row[column.LOSS], max(LEAST_R, row[column.DOF_WEIGHT] * (1.0 - imp) / imp)
        aim[2], J[2, j] = -h * b * v, 1.0
    for k, side in ((1, 1.0), (2, -1.0)):
        gap = side * (q - (row[column.LOW] if side > 0.0 else row[column.HIGH]))
        if gap < row[column.LIMIT_MARGIN]:
            r = gap - row[column.LIMIT_MARGIN]
            imp = impedance(row, column.LIMIT_SOLIMP, r)
            stiff, b = spring(row, column.LIMIT_SOLREF, column.LIMIT_SOLIMP, h)
            laws[k, 1] = laws[k, 2] = max(LEAST_R, row[column.DOF_WEIGHT] * (1.0 - imp) / imp)
            aim[width * k + 2], J[width * k + 2, j] = -h * (b * side * v + stiff * imp * r), side


@compiled
def _after_step(g: Given, soft: SoftConstraints, change: Array) -> Array:
    """Return a' = M̃⁻¹ M a of the acceleration a before the step (nv)."""
    A, unit, momentum = g.M.copy(), np.zeros(len(change)), np.empty(len(change))
    for j in range(len(change)):
        fill(unit, 0.0)
        unit[j] = 1.0
        axpy(1.0, implicit_part(g, soft, unit), A[:, j])
    apply(g.M, change, momentum)
    LU, order, _ = lu_factor(A)
    return lu_solve(LU, order, momentum)


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
    b = np.empty(len(J))
    affine(J, motion, -aim, b)
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
    free, change, before, y, b, steps = motion.copy(), motion.copy(), np.inf, np.empty(len(u)), np.empty(len(J)), 0
    shifted = np.empty(len(motion))
    for _ in range(MOST_ROUNDS):
        # dt a = v_free − v + dt (s + e) + dt M_uu⁻¹ load_u
        fill(motion, 0.0)
        joint_terms(problem, soft, change, motion)
        for i in range(len(u)):
            y[i] = g.dt * problem.load[u[i]]
        forward(problem.L, y)
        backward(problem.L, y)
        copy(free, shifted)
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        axpy(1.0, shifted, motion)
        affine(J, motion, -aim, b)
        _, status, more = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
        steps += more
        # dt a' = the same without e, plus L⁻ᵀ x
        copy(x, y)
        backward(problem.L, y)
        moved, largest = 0.0, 0.0
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        for j in range(len(change)):
            moved, largest = max(moved, abs(shifted[j] - change[j])), max(largest, abs(shifted[j]))
        copy(shifted, change)
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
