"""Constraint rows of MuJoCo: regularisation R and reference acceleration a_ref of contacts, friction and limits of joints
(MATHEMATICS §3.6). solref (t, ζ): t ← max(t, 2h); (−K, −B): k = K/dw², b = B/dw. h: the period of the prediction"""

import numpy as np

from idyn.contact import soft as column
from idyn.contact.soft import LEAST_FRICTION, MOST_FRICTION, SoftConstraints
from idyn.library.kernels import compiled
from idyn.solvers.linalg import axpy, backward, cholesky, copy, copy_rows, dot, fill, forward
from idyn.terms.stages import Dynamics, Given, ReducedProblem
from idyn.types import Array

LEAST, LARGEST = 1e-4, 0.9999  # range of impedances and of the midpoint
LEAST_R = 1e-15  # smallest regularisation R


@compiled
def impedance(row: Array, solimp: int, r: float) -> float:
    """Return d at the distance r [m or rad]. solimp: first of its five columns"""
    d0, dw = min(max(row[solimp], LEAST), LARGEST), min(max(row[solimp + 1], LEAST), LARGEST)
    width, mid, power = row[solimp + 2], min(max(row[solimp + 3], LEAST), LARGEST), row[solimp + 4]
    if d0 == dw or width <= LEAST_R:
        return 0.5 * (d0 + dw)
    x = abs(r) / width
    if x >= 1.0:
        return dw
    y = x**power / mid ** (power - 1.0) if x <= mid else 1.0 - (1.0 - x) ** power / (1.0 - mid) ** (power - 1.0)
    return d0 + y * (dw - d0)


@compiled
def spring(row: Array, solref: int, solimp: int, h: float) -> tuple[float, float]:
    """Return k [1/s²] and b [1/s]. solref, solimp: first of their columns"""
    dw, first, second = min(max(row[solimp + 1], LEAST), LARGEST), row[solref], row[solref + 1]
    if first > 0.0:
        t = max(first, 2.0 * h)
        return 1.0 / (dw * dw * t * t * second * second), 2.0 / (dw * t)
    return -first / (dw * dw), -second / dw


@compiled
def fill_contacts(g: Given, soft: SoftConstraints, J: Array, laws: Array, aim: Array) -> None:
    """Fill the contact laws (n, 7), see `idyn.laws.sap`, and dt a_ref in the rows of J [m/s] (rows).

    J: of `contact_rows` (rows, nv)
    """
    width = 6 if soft.turns else 3
    for i in range(len(laws)):
        row, gap, first, n = soft.contacts[g.bodies[i]], g.gaps[i], width * i, width * i + 2
        w = row[column.WEIGHT] + soft.contacts[g.others[i], column.WEIGHT]
        mu = sliding_friction(g, soft, i)
        fill(laws[i], 0.0)
        laws[i, 0] = mu
        laws[i, 1] = laws[i, 2] = np.inf
        if w == 0.0 or not gap < row[column.MARGIN]:
            continue
        # R_n, R_t = R_n/impratio; of all edges of a pyramid: 2 μ²/impratio w (1 + μ²) (1 − d)/d
        r = gap - row[column.MARGIN]
        imp = impedance(row, column.SOLIMP, r)
        share, edges = (1.0 - imp) / imp, soft.pyramidal and mu > 0.0
        if edges:
            laws[i, 2] = 2.0 * mu * mu / soft.impratio * max(LEAST_R, w * (1.0 + mu * mu) * share)
            laws[i, 4], laws[i, 5] = _pyramid_frame(g.normals[i], g.tangents[i])
            laws[i, 6] = 2.0 * (row[column.CONDIM] - 1.0)
        else:
            laws[i, 2] = max(LEAST_R, w * share)
        laws[i, 1] = laws[i, 2] / soft.impratio
        # dt a_ref
        stiff, b = spring(row, column.SOLREF, column.SOLIMP, g.dt)
        across = b
        if row[column.FRICTION_SOLREF] != 0.0 and not edges:
            _, across = spring(row, column.FRICTION_SOLREF, column.SOLIMP, g.dt)
        for k in range(first, first + width):
            aim[k] = -g.dt * across * dot(J[k], g.v)
        aim[n] = -g.dt * (b * dot(J[n], g.v) + stiff * imp * r)


@compiled
def sliding_friction(g: Given, soft: SoftConstraints, i: int) -> float:
    """Return μ of contact i within MuJoCo's range, 0 without friction."""
    return min(max(g.mu[i], LEAST_FRICTION), MOST_FRICTION) if soft.contacts[g.bodies[i], column.CONDIM] > 1.0 else 0.0


@compiled
def _pyramid_frame(n: Array, s: Array) -> tuple[float, float]:
    """Return MuJoCo's first tangent in the coordinates (s, t): the y-axis made orthogonal to n, the z-axis if |n_y| ≥ 0.5."""
    axis = 1 if abs(n[1]) < 0.5 else 2
    length = np.sqrt(1.0 - n[axis] * n[axis])
    t = n[(axis + 1) % 3] * s[(axis + 2) % 3] - n[(axis + 2) % 3] * s[(axis + 1) % 3]  # component of n × s along the axis
    return s[axis] / length, t / length


@compiled
def free_joint_terms(g: Given, drift: Array) -> None:
    """Add dt (ω × v_lin, 0) of each free joint to `drift` (nv): MuJoCo's acceleration is that of the velocity in the world."""
    _add_turned(g, g.v, g.v, g.dt, drift)


@compiled
def _add_turned(g: Given, turning: Array, moving: Array, share: float, out: Array) -> None:
    """Add share (ω × v_lin, 0) of each free joint to `out` (nv), with ω of `turning` and v_lin of `moving` (nv)."""
    of, j = g.model.dof_joint, 0
    while j + 5 < len(out):
        if of[j] != of[j + 5]:
            j += 1
            continue
        for c in range(3):
            one, two = (c + 1) % 3, (c + 2) % 3
            out[j + c] += share * (turning[j + 3 + one] * moving[j + two] - turning[j + 3 + two] * moving[j + one])
        j += 6


@compiled
def implicit_part(g: Given, soft: SoftConstraints, change: Array) -> Array:
    """Return dt (M̃ − M) a' (nv) of dt a' = `change` (nv). The step M̃ a' = M a is implicit in the damping, M̃ = M + h D, and with
    the integrator `implicit` also in the bias forces, whose slope is ∂h/∂v − M ∂s/∂v, s = (ω × v_lin, 0) of free joints."""
    h, v, out = g.dt, g.v, np.zeros(len(change))
    for k in range(len(g.model.a)):
        j = g.model.a[k]
        out[j] = h * soft.joints[j, column.DAMPING] * change[j]
    if soft.implicit:
        # dt ∂s/∂v a'
        turned = np.zeros(len(v))
        _add_turned(g, change, v, 1.0, turned)
        _add_turned(g, v, change, 1.0, turned)
        for j in range(len(out)):
            out[j] += h * (dot(g.slope[j], change) - dot(g.M[j], turned))
    return out


@compiled
def joint_terms(problem: ReducedProblem, soft: SoftConstraints, change: Array, drift: Array) -> None:
    """Fill `load`: forces of damping, dry friction and limits of the joints at the demand, and what the step is implicit in.
    Add dt e to `drift` (nv), with e = M⁻¹ (M̃ − M) a': constraints act on the acceleration a = a' + e before the step.

    change: dt a' (nv)
    """
    g, q_ddot = problem.dynamics.given, problem.q_ddot
    h, a = g.dt, g.model.a
    e, load = np.zeros(len(g.v)), problem.load
    fill(load, 0.0)
    if soft.damped or soft.implicit:
        e = implicit_part(g, soft, change)
        for j in range(len(load)):
            load[j] -= e[j] / h
        L = g.M.copy()
        cholesky(L)
        forward(L, e)
        backward(L, e)
    for k in range(len(a)):
        j = a[k]
        row, v, acceleration = soft.joints[j], g.v[j], q_ddot[k] + e[j] / h
        ends = _limit(row, g.q[soft.q_index[j]], v, acceleration, h)
        load[j] += _loss(row, v, acceleration, h) + ends - row[column.DAMPING] * v
    axpy(1.0, e, drift)


@compiled
def _loss(row: Array, v: float, acceleration: float, h: float) -> float:
    """Return the force of dry friction, f = −(a − a_ref)/R limited to ± its largest value [N·m]."""
    if row[column.LOSS] == 0.0:
        return 0.0
    imp = impedance(row, column.LOSS_SOLIMP, 0.0)
    _, b = spring(row, column.LOSS_SOLREF, column.LOSS_SOLIMP, h)
    R = max(LEAST_R, row[column.DOF_WEIGHT] * (1.0 - imp) / imp)
    return min(max(-(acceleration + b * v) / R, -row[column.LOSS]), row[column.LOSS])


@compiled
def _limit(row: Array, q: float, v: float, acceleration: float, h: float) -> float:
    """Return the force of the ends of the range, f = max(0, −(a − a_ref)/R) each [N·m]."""
    force = 0.0
    for side in (1.0, -1.0):
        end = row[column.LOW] if side > 0.0 else row[column.HIGH]
        gap = side * (q - end)
        if not gap < row[column.LIMIT_MARGIN]:
            continue
        r = gap - row[column.LIMIT_MARGIN]
        imp = impedance(row, column.LIMIT_SOLIMP, r)
        k, b = spring(row, column.LIMIT_SOLREF, column.LIMIT_SOLIMP, h)
        R = max(LEAST_R, row[column.DOF_WEIGHT] * (1.0 - imp) / imp)
        force += side * max(0.0, -(side * acceleration + b * side * v + k * imp * r) / R)
    return force


@compiled
def contact_rows(d: Dynamics, soft: SoftConstraints) -> Array:
    """Return the contact Jacobian: J itself (3n, nv), or with friction against turning blocks of six (6n, nv): S, T, N, and the
    relative angular velocities about s, t, n, scaled; zero for contacts without this friction."""
    if not soft.turns:
        return d.J
    g, J = d.given, np.zeros((2 * len(d.J), len(d.given.v)))
    for i in range(len(g.mu)):
        roll, spin = _scales(g, soft, i)
        copy_rows(d.J[3 * i : 3 * i + 3], J[6 * i : 6 * i + 3])
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
        copy(p[6 * i : 6 * i + 3], forces[3 * i : 3 * i + 3])
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
    if row[column.CONDIM] < 4.0:
        return 0.0, 0.0
    mu = sliding_friction(g, soft, i)
    roll = max(row[column.ROLL], LEAST_FRICTION) / mu if row[column.CONDIM] > 4.0 else 0.0
    return roll, max(row[column.SPIN], LEAST_FRICTION) / mu
