"""Complementary bases of the convex law: one that is guessed is solved directly, one is read off a QP's answer.

In coordinates c ≥ 0 along the rays of the friction cones, p = Rᵀ c, G = R Y, with multipliers y of non-penetration and the
actual motion x = Gᵀ c, stage I is the LCP

    0 ≤ c ⟂ G (x − Y_Nᵀ y) + R e ≥ 0,      0 ≤ y ⟂ Y_N x + b_N ≥ 0

whose basis is the set of loaded rays and of pressed contacts. Where friction is free a contact has two tangential rays of
either sign and its normal; nothing is asked of one that is released. Loaded rays of a basis are linearly independent in G, so
there are at most nu of them, however many contacts there are.
"""

import numpy as np

from idyn.compiled import compiled
from idyn.laws.law import FACE_ZERO, is_free
from idyn.solvers.linalg import lu_refined
from idyn.solvers.pivoting import append_row, delete_row, solve_active
from idyn.types import Array

NEGATIVE = 1e-10
"""A basis is kept when nothing that must be ≥ 0 is below −NEGATIVE of the problem's units."""

LOADED = 1e-9
"""Impulses of a QP's answer up to this share of the problem's unit are none."""

NO_PART = 1e-9
"""A row's share in another one's dependence below this is rounding."""

COARSE = 1e4
"""Dependence is judged by this multiple of a row's squared length: 3e-5 of its length must be new. A basis of rows that
differ by less would be full of rounding errors."""

WELL = 1e9
"""The same for friction that is taken first: a hundredth must be new."""


@compiled
def units(Y, b, energy):
    """Mean diagonal of D_NN [1/kg] and the largest speed of the problem [m/s], 1 where there is none."""
    n, d, speed = len(b) // 3, 0.0, 0.0
    for i in range(n):
        for c in range(Y.shape[1]):
            d += Y[3 * i + 2, c] ** 2 / n
        speed = max(speed, abs(b[3 * i + 2]))
        for r in range(3):
            speed = max(speed, abs(energy[3 * i + r]))
    return (d if d > 0.0 else 1.0), (speed if speed > 0.0 else 1.0)


@compiled
def cone_rays(Y, energy, mu, unlimited, directions):
    """Rays of all contacts, k places for each: axes in (s, t, n) (n k, 3), G (n k, nu), R e (n k), which places are taken and
    which coordinates have a sign (n k, bool)."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    axes, G, slopes = np.zeros((n * k, 3)), np.zeros((n * k, m)), np.zeros(n * k)
    taken, signed = np.zeros(n * k, dtype=np.bool_), np.ones(n * k, dtype=np.bool_)
    for i in range(n):
        free = is_free(mu[i], unlimited)
        for j in range(0 if mu[i] > 0.0 else 2, 3 if free or mu[i] == 0.0 else k):
            row = k * i + j
            taken[row] = True
            if free:
                axes[row, j] = 1.0
                signed[row] = j == 2
            else:
                axes[row, 0], axes[row, 1], axes[row, 2] = mu[i] * directions[j, 0], mu[i] * directions[j, 1], 1.0
            for r in range(3):
                a = axes[row, r]
                if a != 0.0:
                    slopes[row] += a * energy[3 * i + r]
                    for c in range(m):
                        G[row, c] += a * Y[3 * i + r, c]
    return axes, G, slopes, taken, signed


@compiled
def solve_basis(Y, b, energy, mu, unlimited, directions, basis, release):
    """The point of a basis (n, k + 1: rays, then y): p (3n), y (n), the face's flags (n, 2 + k), and whether it solves the
    law. release: contacts of free friction that carry nothing and part need not be held."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    d, speed = units(Y, b, energy)
    axes, G, slopes, taken, signed = cone_rays(Y, energy, mu, unlimited, directions)
    loaded, pressed = _listed(basis, taken)
    K, rhs = _kkt(G, slopes, Y, b, loaded, pressed)
    z, solved = lu_refined(K, rhs)
    p, y = np.zeros(3 * n), np.zeros(n)
    if not solved:
        return p, y, np.zeros((n, 2 + k), dtype=np.bool_), False

    x, descent = np.zeros(m), np.zeros(m)  # the motion, and what is left of it for the rays
    least = -NEGATIVE * speed / d
    for i in range(len(loaded)):
        row = loaded[i]
        if signed[row]:
            solved = solved and z[i] >= least
            z[i] = max(z[i], 0.0)
        for c in range(m):
            x[c] += z[i] * G[row, c]
        for r in range(3):
            p[3 * (row // k) + r] += z[i] * axes[row, r]
    descent[:] = x
    for j in range(len(pressed)):
        i = pressed[j]
        solved = solved and z[len(loaded) + j] >= least
        y[i] = max(z[len(loaded) + j], 0.0)
        for c in range(m):
            descent[c] -= y[i] * Y[3 * i + 2, c]
    w = _opening(Y, b, x)
    parts = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        solved = solved and w[i] >= -NEGATIVE * speed
        parts[i] = release and is_free(mu[i], unlimited) and w[i] > FACE_ZERO
        solved = solved and not (parts[i] and basis[i, :k].any())  # it would hold sideways
    flags, optimal = _face(G, slopes, taken, signed, mu, unlimited, descent, parts, k, NEGATIVE * speed)
    return p, y, flags, solved and optimal


@compiled
def face_at(Y, b, energy, mu, unlimited, directions, p, y, release):
    """The face's flags (n, 2 + k) of a solution that some other method found."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    _, G, slopes, taken, signed = cone_rays(Y, energy, mu, unlimited, directions)
    x = np.zeros(m)
    for row in range(3 * n):
        for c in range(m):
            x[c] += p[row] * Y[row, c]
    w = _opening(Y, b, x)
    parts = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        parts[i] = release and is_free(mu[i], unlimited) and not p[3 * i : 3 * i + 3].any() and w[i] > FACE_ZERO
        for c in range(m):
            x[c] -= y[i] * Y[3 * i + 2, c]
    flags, _ = _face(G, slopes, taken, signed, mu, unlimited, x, parts, k, 0.0)
    return flags


@compiled
def _listed(basis, taken):
    """Indices of a basis' rays that exist, and of its pressed contacts."""
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
def _kkt(G, slopes, Y, b, loaded, pressed):
    """Matrix and right-hand side for the loads c of the loaded rays and the multipliers y of the pressed contacts."""
    rays, size, m = len(loaded), len(loaded) + len(pressed), Y.shape[1]
    K, rhs = np.zeros((size, size)), np.empty(size)
    for i in range(rays):
        for j in range(i + 1):
            s = 0.0
            for c in range(m):
                s += G[loaded[i], c] * G[loaded[j], c]
            K[i, j] = K[j, i] = s
        for j in range(len(pressed)):
            s = 0.0
            for c in range(m):
                s += G[loaded[i], c] * Y[3 * pressed[j] + 2, c]
            K[i, rays + j], K[rays + j, i] = -s, s
        rhs[i] = -slopes[loaded[i]]
    for j in range(len(pressed)):
        rhs[rays + j] = -b[3 * pressed[j] + 2]
    return K, rhs


@compiled
def _opening(Y, b, x):
    """Speeds at which contacts open under the motion x [m/s] (n)."""
    n = len(b) // 3
    w = np.empty(n)
    for i in range(n):
        w[i] = b[3 * i + 2]
        for c in range(len(x)):
            w[i] += Y[3 * i + 2, c] * x[c]
    return w


@compiled
def _face(G, slopes, taken, signed, mu, unlimited, descent, parts, k, tolerance):
    """The face's flags (n, 2 + k), and whether no ray leads downhill [m/s]; contacts that part carry nothing either way."""
    n = len(mu)
    flags, optimal = np.zeros((n, 2 + k), dtype=np.bool_), True
    for i in range(n):
        if parts[i]:
            continue
        flat, steepest = 0, 0.0  # rays that may be loaded, and the largest slope along any
        for j in range(k):
            row = k * i + j
            if not taken[row]:
                continue
            slope = slopes[row]
            for c in range(len(descent)):
                slope += G[row, c] * descent[c]
            optimal = optimal and slope >= -tolerance and (signed[row] or slope <= tolerance)
            steepest = max(steepest, slope)
            flags[i, 2 + j] = slope <= FACE_ZERO
            flat += 1 if flags[i, 2 + j] else 0
        if is_free(mu[i], unlimited):
            flags[i, 0] = flags[i, 4]
            flags[i, 2:] = True
        else:  # three flat corners span the cone: the others are steep by rounding errors only
            flags[i, 0] = flat > 0
            flags[i, 1] = mu[i] > 0.0 and steepest > FACE_ZERO and flat < 3
    return flags, optimal


@compiled
def basis_of(Y, b, energy, mu, unlimited, directions, p, y):
    """A basis (n, k + 1) for the impulses p (3n) and multipliers y (n) of some solution: as few loaded rays and pressed
    contacts as give the same motion."""
    n, k, m = len(mu), len(directions), Y.shape[1]
    _, G, _, taken, signed = cone_rays(Y, energy, mu, unlimited, directions)
    d, speed = units(Y, b, energy)
    nothing = LOADED * speed / d
    loaded, count = _independent(G, _coordinates(mu, unlimited, directions, p), taken, signed, nothing)
    T = np.zeros((n, count))
    for i in range(n):
        for j in range(count):
            for q in range(m):
                T[i, j] += Y[3 * i + 2, q] * G[loaded[j], q]
    everywhere = np.ones(n, dtype=np.bool_)
    pressed, presses = _independent(T, y.copy(), everywhere, everywhere, nothing)
    basis = np.zeros((n, k + 1), dtype=np.bool_)
    for j in range(count):
        basis[loaded[j] // k, loaded[j] % k] = True
    for j in range(presses):
        basis[pressed[j], k] = True
    return basis


@compiled
def _coordinates(mu, unlimited, directions, p):
    """Coordinates along the rays of `cone_rays` of impulses p (n k): the two corners next to the tangential part carry it, the
    rest goes to two opposite ones."""
    n, k = len(mu), len(directions)
    out = np.zeros(n * k)
    for i in range(n):
        ps, pt, pn = p[3 * i], p[3 * i + 1], p[3 * i + 2]
        if is_free(mu[i], unlimited):
            out[k * i], out[k * i + 1], out[k * i + 2] = ps, pt, pn
            continue
        if mu[i] == 0.0:
            out[k * i + 2] = pn
            continue
        best, corner, share0, share1 = -np.inf, 0, 0.0, 0.0
        for j in range(k):
            a, e = directions[j], directions[(j + 1) % k]
            det = mu[i] * (a[0] * e[1] - a[1] * e[0])
            s0, s1 = (ps * e[1] - pt * e[0]) / det, (a[0] * pt - a[1] * ps) / det
            if min(s0, s1) > best:
                best, corner, share0, share1 = min(s0, s1), j, s0, s1
        rest = max(pn - share0 - share1, 0.0) / 2
        out[k * i + corner] += max(share0, 0.0) + rest
        out[k * i + (corner + 1) % k] += max(share1, 0.0)
        out[k * i + (corner + k // 2) % k] += rest
    return out


@compiled
def _independent(G: Array, c: Array, taken: Array, signed: Array, nothing: float) -> tuple[Array, int]:
    """Rows of G that are linearly independent and give the same Gᵀ c with coefficients of the same sign: which, how many.

    Carathéodory's argument: a row that depends on those taken before hands its load over to them until it has none left, or one
    of them has none and makes room. Overwrites c.
    """
    R, m = G.shape
    F, active, count = np.zeros((m, m)), np.empty(max(m, 1), dtype=np.int64), 0
    good = np.zeros(R, dtype=np.bool_)
    for stage in range(3):  # what presses, or feet almost on one plane would carry it by friction; good friction; the rest
        for j in range(R):
            if not taken[j] or signed[j] != (stage == 0) or (signed[j] and not c[j] > nothing):
                continue
            length2 = 0.0
            for q in range(m):
                length2 += G[j, q] * G[j, q]
            if stage == 1:
                good[j] = append_row(F, G, active, count, j, WELL * length2)
                count += 1 if good[j] else 0
            if stage == 1 or good[j]:
                continue
            while not append_row(F, G, active, count, j, COARSE * length2):
                full = _hand_over(F, G, active, count, c, signed, j)
                if full < 0:
                    break
                delete_row(F, active, count, full)
                count -= 1
            else:
                count += 1
    return active, count


@compiled
def _hand_over(F: Array, G: Array, active: Array, count: int, c: Array, signed: Array, j: int) -> int:
    """Move load of row j to the active rows it depends on; the active row that lost its own by that, −1 when j lost all."""
    direction = -1.0 if c[j] < 0.0 else 1.0
    rhs = np.zeros(count)
    for i in range(count):
        for q in range(G.shape[1]):
            rhs[i] += G[active[i], q] * G[j, q]
    alpha = solve_active(F, active, count, direction * rhs)
    step, full = abs(c[j]), -1
    for i in range(count):
        if signed[active[i]] and alpha[i] < -NO_PART and c[active[i]] < -alpha[i] * step:
            step, full = -c[active[i]] / alpha[i], i
    for i in range(count):
        c[active[i]] += step * alpha[i]
    c[j] -= direction * step
    return full
