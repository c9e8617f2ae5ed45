"""Selection for few contacts: a dense program in the null space of J_uᵀ, in the coordinates of `idyn.selection.aim`; the
fastest method up to about six contacts. It fails if the torque limits would be exceeded."""

from typing import NamedTuple

import numpy as np

from idyn.laws.convex_program import facets, turn
from idyn.laws.law import Face
from idyn.library.kernels import compiled, stack_array
from idyn.selection.aim import Aim, Coordinates, choice_dimension, columns_of, coordinates_of, has_impulses_in_cones, start_of
from idyn.solvers.linalg import RANK, backward, cholesky, copy, dot, fill, fill_rows, forward, forward_rows, null_space
from idyn.solvers.pivoting import ppm
from idyn.status import SOLVED
from idyn.terms.reduction import recover
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

TIE_BREAK, UNLIMITED = 1e-10, 1e-6
"""Weights of ‖f‖² relative to the largest squared lever J_a², with limited and with unlimited friction. With unlimited friction
and a smaller weight feet would press against each other with kilonewtons to save the last mN·m of torque; larger weights than
1e-6 increase the torque."""

INSIDE = 1e-10  # forces outside a cone by up to this count as inside [N]
MAX_PIVOTS = 200  # maximum number of principal pivots; then `idyn.selection.many` is used


FEW = 18  # maximum dimension of a choice for the dense program: eight sticking feet, or thirty sliding points


class Program(NamedTuple):
    """The program in null-space coordinates y [N]: f = p/dt + Z y (3n), τ = τ* − B y (na), rows · y ≥ slack."""

    Z: Array  # (3n, dim)
    B: Array  # (na, dim)
    rows: Array  # (r, dim)
    slack: Array  # (r)
    lever2: float  # largest squared entry of J_a


@compiled
def _choose(problem: ReducedProblem, face: Face, aim: Aim, p: Array) -> tuple[Array, bool, int]:
    """Return the impulses that minimise the objective (3n), whether they were found and satisfy the torque limits, and the
    dimension of the choice."""
    given = problem.dynamics.given
    v_plus, tau, closing, dt = (
        stack_array(len(given.v)),
        stack_array(len(given.model.a)),
        stack_array(len(problem.closing_free)),
        given.dt,
    )
    # τ*, and the null space of J_uᵀ on the face
    recover(problem, p, v_plus, tau, closing)
    coordinates = coordinates_of(face)
    basis = null_space(columns_of(problem.Y, coordinates))
    dim = basis.shape[1]
    if dim == 0:
        return p, True, 0
    # y = −H⁻¹ g without constraints, H = L Lᵀ; then with the constraints of the face
    force = p / dt
    program = _program(problem, face, coordinates, basis, force)
    Z, B, factor, y = program.Z, program.B, stack_array((dim, dim)), stack_array(dim)
    weight = UNLIMITED if face.unlimited and not aim.of_forces else TIE_BREAK
    weight *= max(program.lever2, 1.0) if aim.of_forces else program.lever2
    _objective(program, tau, force, aim, weight, factor, y)
    for j in range(dim):
        y[j] = -y[j]
    cholesky(factor)
    forward(factor, y)
    backward(factor, y)
    found = _enforce(y, factor, program.rows, program.slack)
    # τ = τ* − B y within the limits
    cost, own = 0.0, 0.0
    for q in range(len(tau)):
        t = tau[q]
        own += t * t
        for j in range(dim):
            t -= B[q, j] * y[j]
        cost += t * t
        found = found and abs(t) <= given.model.tau_max[q]
    # p + dt Z y
    chosen = p.copy()
    for i in range(len(p)):
        for j in range(dim):
            chosen[i] += dt * Z[i, j] * y[j]
    return chosen, found and not (aim.inside and cost > own), dim


@compiled
def _program(problem: ReducedProblem, face: Face, coordinates: Coordinates, basis: Array, force: Array) -> Program:
    """Return the program without its objective. basis: of the null space, in coordinates of the face (m, dim)"""
    contact, axis, a, (m, dim) = coordinates.contact, coordinates.axis, problem.dynamics.given.model.a, basis.shape
    Z, B, lever2 = np.zeros((len(force), dim)), np.zeros((len(a), dim)), 0.0
    # Z: from null-space coordinates to forces
    for w in range(m):
        for c in range(3):
            if axis[w, c] != 0.0:
                for j in range(dim):
                    Z[3 * contact[w] + c, j] += axis[w, c] * basis[w, j]
    # B = J_aᵀ Z
    for row in range(len(force)):
        J = problem.bound[row]
        for q in range(len(a)):
            lever = J[a[q]]
            if lever != 0.0:
                lever2 = max(lever2, lever * lever)
                for j in range(dim):
                    B[q, j] += lever * Z[row, j]
    rows, slack = _constraints(face, coordinates, basis, force)
    return Program(Z, B, rows, slack, lever2)


@compiled
def _constraints(face: Face, coordinates: Coordinates, basis: Array, force: Array) -> tuple[Array, Array]:
    """Return the constraints of the face, rows (r, dim) and slack (r): coordinates ≥ 0 and facets of cones."""
    positive, cone, mu, k, (m, dim) = coordinates.positive, coordinates.cone, face.mu, len(face.directions), basis.shape
    # number of rows
    r = 0
    for w in range(m):
        r += positive[w]
    for i in range(len(mu)):
        r += k if cone[i] >= 0 else 0
    rows, slack, count = np.zeros((r, dim)), np.empty(r), 0
    # coordinate ≥ 0: basis_w · y ≥ −start_w
    start = start_of(coordinates, force)
    for w in range(m):
        if positive[w]:
            copy(basis[w], rows[count])
            slack[count] = -start[w]
            count += 1
    # facets of cones: facet · (f + Z y) ≥ 0; a round cone is replaced by a polygon with a corner along its friction
    facet, turned, directions = stack_array((k, 3)), stack_array((k, 2)), face.directions
    for i in range(len(mu)):
        if cone[i] < 0:
            continue
        if len(face.friction) > 0:
            turn(face.directions, face.friction[i], turned)
            directions = turned
        facets(facet, 0, 0, mu[i], directions)
        for e in range(k):
            slack[count] = 0.0
            for c in range(3):
                slack[count] -= facet[e, c] * force[3 * i + c]
                for j in range(dim):
                    rows[count, j] += facet[e, c] * basis[cone[i] + c, j]
            count += 1
    return rows, slack


@compiled
def _enforce(y: Array, L: Array, rows: Array, slack: Array) -> bool:
    """Replace y, the optimum without constraints, by the optimum with rows · y ≥ slack. Return whether it was found.

    The dual of the program is the LCP w = R (L Lᵀ)⁻¹ Rᵀ z + R y − slack, solved by principal pivoting, which starts with the
    violated rows.
    """
    m, d = rows.shape
    # R y − slack
    distance, beyond, inside = stack_array(m), stack_array(m, np.bool_), True
    for i in range(m):
        distance[i] = -slack[i]
        for j in range(d):
            distance[i] += rows[i, j] * y[j]
        beyond[i] = distance[i] < 0.0
        inside = inside and not beyond[i]
    if inside:
        return True
    # Y = R L⁻ᵀ; rows that are rounding errors become zero
    Y, lengths2 = stack_array((m, d)), stack_array(m)
    for i in range(m):
        length2 = dot(rows[i], rows[i])
        for j in range(d):
            Y[i, j] = rows[i, j] if length2 >= RANK * RANK else 0.0
    forward_rows(L, Y)
    for i in range(m):
        lengths2[i] = 0.0
        for j in range(d):
            lengths2[i] += Y[i, j] * Y[i, j]
    # 0 ≤ z ⟂ Y Yᵀ z + R y − slack ≥ 0
    z, status, _, _ = ppm(Y, distance, lengths2, beyond, INSIDE, MAX_PIVOTS)
    if status != SOLVED:
        return False
    # y += L⁻ᵀ Yᵀ z
    step = stack_array(d)
    for j in range(d):
        step[j] = 0.0
        for i in range(m):
            step[j] += Y[i, j] * z[i]
    backward(L, step)
    for j in range(d):
        y[j] += step[j]
    return True


@compiled
def _objective(program: Program, tau: Array, force: Array, aim: Aim, weight: float, H: Array, g: Array) -> None:
    """Fill H (dim, dim) and g (dim) of ½‖τ − B y − target‖², or of ½‖force + Z y − target‖² if `of_forces`, plus the tie-break
    ½ weight ‖force + Z y‖²."""
    Z, target, dim = program.Z, aim.target, program.Z.shape[1]
    K, value, sign = (Z, force, 1.0) if aim.of_forces else (program.B, tau, -1.0)
    # g = Kᵀ error, H = Kᵀ K, lower triangle
    fill(g, 0.0)
    fill_rows(H, 0.0)
    for i in range(K.shape[0]):
        error = sign * (value[i] - target[i])
        for j in range(dim):
            g[j] += K[i, j] * error
            for c in range(j + 1):
                H[j, c] += K[i, j] * K[i, c]
    # upper triangle; tie-break ½ weight ‖f + Z y‖²
    for j in range(dim):
        for c in range(j):
            H[c, j] = H[j, c]
        H[j, j] += weight
        for i in range(len(force)):
            g[j] += weight * Z[i, j] * force[i]


@compiled
def choose_among_few(problem: ReducedProblem, face: Face, of_forces: bool, target: Array, p: Array) -> tuple[Array, bool, int]:
    """Select impulses of a face (3n), given a law's solution p (3n), by the dense program. Return them, whether they were
    found, and the dimension of the choice. The selection fails for many contacts, and if torque limits would be exceeded; then
    use `choose_thoroughly`.

    A law of unlimited friction usually has solutions within the friction cones of μ, which are physically possible: these are
    tried first, and taken unless their torque exceeds that of p.
    """
    for inside in (True, False):
        if inside and not has_impulses_in_cones(face):
            continue
        null_dim = 0 if 3 * len(face.mu) <= FEW else choice_dimension(problem.Y, face)
        if null_dim <= FEW:
            restricted = Face(face.flags, face.directions, face.mu, face.unlimited and not inside, face.friction)
            chosen, found, null_dim = _choose(problem, restricted, Aim(target, of_forces, inside), p)
            if found or null_dim == 0:
                return chosen, True, null_dim
    return p, False, 0
