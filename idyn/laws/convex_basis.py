"""Complementary bases of the convex laws: loaded rays (c > 0) and pressed contacts (y > 0) of the LCP in coordinates c ≥ 0
along the rays of the cones, p = Rᵀ c, G = R Y, with the motion x = Gᵀ c. At most nu rays are loaded.

    0 ≤ c ⟂ G (x − Y_Nᵀ y) + R e ≥ 0,      0 ≤ y ⟂ Y_N x + b_N ≥ 0          contact energy: 0 ≤ c ⟂ G x + R b ≥ 0
"""

import numpy as np

from idyn.laws.convex_program import Program, Rays, along_rays, cone_rays, units
from idyn.laws.law import FACE_ZERO, is_free
from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Mask, Vector
from idyn.solvers.linalg import axpy, copy, dot, fill, lu_refined
from idyn.solvers.pivoting import append_row, delete_row, solve_active
from idyn.types import Array

NEGATIVE = 1e-10  # a basis is accepted if no variable that must be ≥ 0 is below −NEGATIVE, in units of the problem
LOADED = 1e-9  # impulses of a QP solution up to this share of the unit of the problem count as zero
INDEPENDENT_OF = 1e-9  # coefficients of a linear dependence below this count as zero
COARSE = 1e4  # factor on the squared length for `append_row`: orthogonal parts of rows must exceed 3e-5 of their length
CLEARLY = 1e9  # the same for tangential rays of free sign, which are selected early: a hundredth of the length


@entry(Program, Mask, bool)
def solve_basis(program: Program, basis: Array, release: bool) -> tuple[Array, Array, Array, bool]:
    """Solve at a basis (n, k + 1): columns of the k rays, then of y. release: whether separating contacts of unlimited friction
    may slide

    Return p (3n), y (n), flags of the face (n, 2 + k), and whether this solves the law.
    """
    Y, b, mu = program.Y, program.b, program.mu
    n, k, m = len(mu), len(program.directions), Y.shape[1]
    d, speed = units(Y, b, program.energy)
    rays = cone_rays(program)
    # c and y of the basis; ≥ 0 except for rays of free sign
    loaded, pressed = _basis_indices(basis, rays.taken)
    K, rhs = _kkt(rays.G, rays.slopes, Y, b, loaded, pressed)
    z, solved = lu_refined(K, rhs)
    for i in range(len(z)):
        free = i < len(loaded) and not rays.signed[loaded[i]]
        solved = solved and (free or z[i] >= -NEGATIVE * speed / d)
    p, y = np.zeros(3 * n), np.zeros(n)
    if not solved:
        return p, y, np.zeros((n, 2 + k), dtype=np.bool_), False

    # x = Gᵀ c, p = Rᵀ c, and x − Y_Nᵀ y
    x, descent = np.zeros(m), np.zeros(m)
    for i in range(len(loaded)):
        row = loaded[i]
        if rays.signed[row]:
            z[i] = max(z[i], 0.0)
        axpy(z[i], rays.G[row], x)
        for r in range(3):
            p[3 * (row // k) + r] += z[i] * rays.axes[row, r]
    copy(x, descent)
    for j in range(len(pressed)):
        i = pressed[j]
        y[i] = max(z[len(loaded) + j], 0.0)
        axpy(-y[i], Y[3 * i + 2], descent)
    # Y_N x + b_N ≥ 0, G (x − Y_Nᵀ y) + R e ≥ 0
    w = _opening(Y, b, x)
    parts = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        solved = solved and w[i] >= -NEGATIVE * speed
        parts[i] = release and is_free(mu[i], program.unlimited) and w[i] > FACE_ZERO
        solved = solved and not (parts[i] and basis[i, :k].any())  # impulse at a separating contact
    flags, optimal = _face(program, rays, descent, parts, NEGATIVE * speed)
    return p, y, flags, solved and optimal


@entry(Program, Vector, Vector, bool)
def face_at(program: Program, p: Array, y: Array, release: bool) -> Array:
    """Return flags of the face (n, 2 + k) for a solution p (3n), y (n) without a basis."""
    Y, n, m = program.Y, len(program.mu), program.Y.shape[1]
    # x = Yᵀ p
    x = np.zeros(m)
    for row in range(3 * n):
        axpy(p[row], Y[row], x)
    # separating contacts; x − Y_Nᵀ y
    w = _opening(Y, program.b, x)
    parts = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        free = is_free(program.mu[i], program.unlimited)
        parts[i] = release and free and not p[3 * i : 3 * i + 3].any() and w[i] > FACE_ZERO
        axpy(-y[i], Y[3 * i + 2], x)
    flags, _ = _face(program, cone_rays(program), x, parts, 0.0)
    return flags


@compiled
def _basis_indices(basis: Array, taken: Array) -> tuple[Array, Array]:
    """Return indices of the loaded rays and of the pressed contacts of a basis."""
    n, k = basis.shape[0], basis.shape[1] - 1
    loaded, pressed = np.empty(n * k, dtype=np.int64), np.empty(n, dtype=np.int64)
    rays, normals = 0, 0
    for i in range(n):
        for j in range(k):
            if basis[i, j] and taken[k * i + j]:
                loaded[rays] = k * i + j
                rays += 1
        if basis[i, k]:
            pressed[normals] = i
            normals += 1
    return loaded[:rays], pressed[:normals]


@compiled
def _kkt(G: Array, slopes: Array, Y: Array, b: Array, loaded: Array, pressed: Array) -> tuple[Array, Array]:
    """Return matrix and right-hand side of the equations for c of the loaded rays and y of the pressed contacts."""
    rays, size = len(loaded), len(loaded) + len(pressed)
    K, rhs = np.zeros((size, size)), np.empty(size)
    # G_L G_Lᵀ c − G_L Y_Pᵀ y = −(R e)_L
    for i in range(rays):
        for j in range(i + 1):
            K[i, j] = K[j, i] = dot(G[loaded[i]], G[loaded[j]])
        for j in range(len(pressed)):
            s = dot(G[loaded[i]], Y[3 * pressed[j] + 2])
            K[i, rays + j], K[rays + j, i] = -s, s
        rhs[i] = -slopes[loaded[i]]
    # Y_P G_Lᵀ c = −b_P
    for j in range(len(pressed)):
        rhs[rays + j] = -b[3 * pressed[j] + 2]
    return K, rhs


@compiled
def _opening(Y: Array, b: Array, x: Array) -> Array:
    """Return the opening speeds Y_N x + b_N of the contacts for the motion x [m/s] (n)."""
    n = len(b) // 3
    w = np.empty(n)
    for i in range(n):
        w[i] = b[3 * i + 2]
        for c in range(len(x)):
            w[i] += Y[3 * i + 2, c] * x[c]
    return w


@compiled
def _face(program: Program, rays: Rays, descent: Array, parts: Array, tolerance: float) -> tuple[Array, bool]:
    """Return flags of the face (n, 2 + k), and whether the objective decreases along no ray by a slope of more than `tolerance`
    [m/s]. Contacts marked in `parts` have zero impulse and are not checked."""
    mu, n, k = program.mu, len(program.mu), len(program.directions)
    flags, optimal = np.zeros((n, 2 + k), dtype=np.bool_), True
    for i in range(n):
        if parts[i]:
            continue
        # slopes G (x − Y_Nᵀ y) + R e: rays with zero slope may be loaded
        flat, steepest = 0, 0.0
        for j in range(k):
            row = k * i + j
            if not rays.taken[row]:
                continue
            slope = rays.slopes[row]
            for c in range(len(descent)):
                slope += rays.G[row, c] * descent[c]
            optimal = optimal and slope >= -tolerance and (rays.signed[row] or slope <= tolerance)
            steepest = max(steepest, slope)
            flags[i, 2 + j] = slope <= FACE_ZERO
            flat += 1 if flags[i, 2 + j] else 0
        # three rays of zero slope span the cone: other slopes are rounding errors
        if is_free(mu[i], program.unlimited):
            flags[i, 0] = flags[i, 4]
            fill(flags[i, 2:], True)
        else:
            flags[i, 0] = flat > 0
            flags[i, 1] = mu[i] > 0.0 and steepest > FACE_ZERO and flat < 3
    return flags, optimal


@entry(Program, Vector, Vector)
def basis_of(program: Program, p: Array, y: Array) -> Array:
    """Return a basis (n, k + 1) for a solution p (3n), y (n): independent loaded rays and pressed contacts that cause the same
    motion as p and y."""
    Y, n, k, m = program.Y, len(program.mu), len(program.directions), program.Y.shape[1]
    rays = cone_rays(program)
    d, speed = units(Y, program.b, program.energy)
    negligible = LOADED * speed / d
    # independent rays with the same Gᵀ c
    loaded, count = _independent(rays.G, along_rays(program, p), rays.taken, rays.signed, negligible)
    # independent contacts with the same G_L Y_Nᵀ y
    T = np.zeros((n, count))
    for i in range(n):
        for j in range(count):
            for q in range(m):
                T[i, j] += Y[3 * i + 2, q] * rays.G[loaded[j], q]
    everywhere = np.ones(n, dtype=np.bool_)
    pressed, presses = _independent(T, y.copy(), everywhere, everywhere, negligible)
    # as a mask
    basis = np.zeros((n, k + 1), dtype=np.bool_)
    for j in range(count):
        basis[loaded[j] // k, loaded[j] % k] = True
    for j in range(presses):
        basis[pressed[j], k] = True
    return basis


@compiled
def _independent(G: Array, c: Array, taken: Array, signed: Array, negligible: float) -> tuple[Array, int]:
    """Select linearly independent rows of G, and coefficients c for them that give the same Gᵀ c; c ≥ 0 for signed rows. Return
    the indices of the rows and their number. Overwrites c.

    Carathéodory's theorem: if a row depends on rows selected before, its coefficient is shifted to these until it is zero, or
    until the coefficient of one of these rows is zero; then the new row replaces that row.
    """
    R, m = G.shape
    F, active, count = np.zeros((m, m)), np.empty(max(m, 1), dtype=np.int64), 0
    good = np.zeros(R, dtype=np.bool_)
    # signed rays first, else friction of feet almost on one plane would replace their load; then clearly independent rays of
    # free sign; then the others
    for stage in range(3):
        for j in range(R):
            if not taken[j] or signed[j] != (stage == 0) or (signed[j] and not c[j] > negligible):
                continue
            # selected if its orthogonal part is long enough
            length2 = dot(G[j], G[j])
            if stage == 1:
                good[j] = append_row(F, G, active, count, j, CLEARLY * length2)
                count += 1 if good[j] else 0
            if stage == 1 or good[j]:
                continue
            # dependent: its coefficient is shifted to active rows until it is zero, or until an active row can be replaced
            while not append_row(F, G, active, count, j, COARSE * length2):
                full = _redistribute(F, G, active, count, c, signed, j)
                if full < 0:
                    break
                delete_row(F, active, count, full)
                count -= 1
            else:
                count += 1
    return active, count


@compiled
def _redistribute(F: Array, G: Array, active: Array, count: int, c: Array, signed: Array, j: int) -> int:
    """Shift the coefficient of row j to the active rows that it depends on, until a coefficient is zero. Return the position of
    the active row whose coefficient becomes zero; −1 if that of row j does."""
    direction = -1.0 if c[j] < 0.0 else 1.0
    alpha = stack_array(count)
    # G_j = Σ α_i G_i over the active rows
    for i in range(count):
        alpha[i] = direction * dot(G[active[i]], G[j])
    solve_active(F, count, alpha)
    # largest step with c_i + step α_i ≥ 0
    step, full = abs(c[j]), -1
    for i in range(count):
        if signed[active[i]] and alpha[i] < -INDEPENDENT_OF and c[active[i]] < -alpha[i] * step:
            step, full = -c[active[i]] / alpha[i], i
    for i in range(count):
        c[active[i]] += step * alpha[i]
    c[j] -= direction * step
    return full
