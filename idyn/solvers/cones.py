"""The nearest point of a product of small cones that obeys a few rules: linear in the number of cones.

    min ½‖x − x₀‖² + Σ_k h_k(A_k x)     s.t.  x_i ∈ C_i                   A is r×3n, r small

Each h_k is a parabola about b_k inside an interval, (t − b_k)²/(2 soft_k), or, with soft_k = 0, the equation t = b_k; what is
beyond the interval costs as a steeper parabola, or is forbidden. Each C_i ⊂ R³ is one of the kinds below, on which projecting
takes a few operations. So the dual, in the r multipliers λ only,

    x(λ) = Π_C(x₀ − Aᵀ λ),        A x(λ) − t(λ) = 0,       t_k(λ) the point where h_k has the slope λ_k

is the gradient of a concave function and, without round cones, piecewise linear: Newton's method with the derivatives J of the
projections and t' of the points, (A J Aᵀ + diag t') Δ = A x − t, and a line search end after a few steps, of O(n r²) each.

A feasible set that is empty shows as a dual value that grows without end. One that is hardly more than a point is not the
dual's strength: then none may be found in MOST_STEPS steps.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.solvers.linalg import backward, cholesky, copy, forward
from idyn.types import Array

NOTHING, FREE, RAYS, ROUND = 0, 1, 2, 3
"""Kinds of cones: only 0; any tangential part with a normal part ≥ 0; what the contact's rays span, in angular order; what its
first ray, which is in the plane of s and n, passes over when it is turned about n."""

EXACT, ENOUGH = 1e-12, 2e-11
"""Errors of the rules that are aimed at, and that are accepted when no step makes them less; relative to the largest of 1, b
and x₀."""

LEAST_DAMPING = 1e-12
"""Added to the diagonal of the curvature, for equations may depend on one another. Steps that lead nowhere are tried again with
a hundred times as much."""

LOST = 10.0
"""Steps with more damping than this lead nowhere."""

FLAT, MOST_TRIALS = 0.3, 12
"""A step ends where the function rises by a smaller share of what it does at first; so many points are tried."""

NOT_FOUND, TOO_DEAR = -1, -2
"""Instead of a number of steps: the method came to its end; every x costs more than it is worth."""

MOST_STEPS = 30
"""Newton steps."""


@compiled
def nearest_in_cones(
    x0: Array, A: Array, rules: Array, kinds: Array, rays: Array, start: Array, worth: float
) -> tuple[Array, Array, int]:
    """x (3n), the multipliers λ (r), and how many Newton steps it took; NOT_FOUND or TOO_DEAR when x was not found.

    x0: (3n); A: rows (r, 3n), of order one
    rules: for each row b, its softness inside the interval and beyond it, and the interval's ends (r, 5)
    kinds: (n); rays: unit vectors of those of kind RAYS, zero where there are fewer (n, k, 3)
    start: multipliers to begin with (r); worth: what an x may cost to be of interest
    """
    size = len(x0)
    multipliers, x, slopes = start.copy(), np.empty(size), np.empty((size // 3, 3, 3))
    scale = max(1.0, np.max(np.abs(rules[:, 0])), np.max(np.abs(x0)))
    # the dual at the start, and H = A J Aᵀ + diag t'
    value, error, gradient, give = _dual(multipliers, x0, A, rules, kinds, rays, x, slopes)
    damping, step = LEAST_DAMPING, 0
    H = _curvature(A, slopes, give)
    for step in range(MOST_STEPS):
        if error <= EXACT * scale:
            return x, multipliers, step
        # H Δ = A x − t, then a line search for a flat slope along Δ
        change, promised = _newton_step(H, gradient, damping)
        share, low, high, at_low, at_high = 1.0, 0.0, 0.0, promised, 0.0
        for _ in range(MOST_TRIALS):
            trial = multipliers + share * change
            new, rest, slope, give = _dual(trial, x0, A, rules, kinds, rays, x, slopes)
            along = change @ slope
            if abs(along) <= FLAT * promised or (high == 0.0 and along > 0.0):
                break
            if along > 0.0:
                low, at_low, at_high = share, along, 0.5 * at_high
            else:
                high, at_high, at_low = share, along, at_low if high == 0.0 else 0.5 * at_low
            share = low + (high - low) * at_low / (at_low - at_high)  # regula falsi, Illinois
        # end, try again with more damping, or take the step
        if rest >= error and error <= ENOUGH * scale:
            break  # nothing but rounding errors is left
        if rest >= error and new <= value:
            if damping > LOST:
                break
            damping *= 1e2
            continue
        multipliers, value, error, gradient = trial, new, rest, slope
        if value > worth:
            return x, multipliers, TOO_DEAR
        H, damping = _curvature(A, slopes, give), LEAST_DAMPING
    # x(λ) of the best λ, not of the last trial
    _dual(multipliers, x0, A, rules, kinds, rays, x, slopes)
    return x, multipliers, step if error <= ENOUGH * scale else NOT_FOUND


@compiled
def _newton_step(H: Array, gradient: Array, damping: float) -> tuple[Array, float]:
    """(H + damping (I + diag H))⁻¹ gradient, and its slope along the gradient."""
    L, change = H.copy(), gradient.copy()
    for k in range(len(gradient)):
        L[k, k] += damping * (1.0 + H[k, k])
    cholesky(L)
    forward(L, change)
    backward(L, change)
    return change, change @ gradient


@compiled
def _dual(
    multipliers: Array, x0: Array, A: Array, rules: Array, kinds: Array, rays: Array, x: Array, slopes: Array
) -> tuple[float, float, Array, Array]:
    """Fill x and the slopes of the projections. Returns the value of the dual function, the largest violation of its equation,
    its gradient (r) and t' (r)."""
    r, size = A.shape
    gradient, give = np.empty(r), np.empty(r)
    # x(λ) = Π_C(x₀ − Aᵀ λ)
    copy(x0, x)
    for k in range(r):
        if multipliers[k] != 0.0:
            for i in range(size):
                x[i] -= A[k, i] * multipliers[k]
    for i in range(size // 3):
        project(x[3 * i : 3 * i + 3], kinds[i], rays[i], slopes[i])
    # ½‖x − x₀‖² + Σ h_k(t_k) + λᵀ(A x − t), gradient A x − t
    value, error = 0.0, 0.0
    for i in range(size):
        value += 0.5 * (x[i] - x0[i]) ** 2
    for k in range(r):
        t, cost, give[k] = _conjugate(multipliers[k], rules[k])
        rest = -t
        for i in range(size):
            rest += A[k, i] * x[i]
        value += multipliers[k] * rest + cost
        gradient[k] = rest
        error = max(error, abs(rest))
    return value, error, gradient, give


@compiled
def _conjugate(slope: float, rule: Array) -> tuple[float, float, float]:
    """The point t where a rule's cost has this slope, the cost there, and dt/dslope."""
    b, soft, hard, low, high = rule
    t = b + soft * slope
    edge = min(max(t, low), high)
    if t == edge:
        return t, 0.5 * soft * slope * slope, soft
    at = (edge - b) / soft if soft > 0.0 else 0.0  # the slope at the edge
    beyond = hard * (slope - at)
    return edge + beyond, 0.5 * soft * at * at + at * beyond + 0.5 * hard * (slope - at) ** 2, hard


@compiled
def _curvature(A: Array, slopes: Array, give: Array) -> Array:
    """A J Aᵀ + diag t' (r, r)."""
    r, size = A.shape
    H, row = np.zeros((r, r)), np.empty(3)
    # Σ_i A_i J_i A_iᵀ, lower triangle
    for i in range(size // 3):
        J = slopes[i]
        if J[0, 0] == 0.0 and J[1, 1] == 0.0 and J[2, 2] == 0.0:
            continue
        for k in range(r):
            a0, a1, a2 = A[k, 3 * i], A[k, 3 * i + 1], A[k, 3 * i + 2]
            for c in range(3):
                row[c] = a0 * J[0, c] + a1 * J[1, c] + a2 * J[2, c]
            for j in range(k + 1):
                H[k, j] += row[0] * A[j, 3 * i] + row[1] * A[j, 3 * i + 1] + row[2] * A[j, 3 * i + 2]
    # + diag t', upper triangle
    for k in range(r):
        H[k, k] += give[k]
        for j in range(k):
            H[j, k] = H[k, j]
    return H


@compiled
def project(x: Array, kind: int, rays: Array, slope: Array) -> None:
    """Move x to the nearest point of the cone, in place, and fill the slope of that map (3, 3)."""
    slope[:] = 0.0
    if kind == FREE:
        slope[0, 0] = slope[1, 1] = 1.0
        if x[2] >= 0.0:
            slope[2, 2] = 1.0
        else:
            x[2] = 0.0
        return
    if kind == NOTHING:
        x[:] = 0.0
        return
    if kind == ROUND:
        _project_on_round(x, rays[0, 0] / rays[0, 2], slope)
        return
    # RAYS: the number of rays
    count = 0
    while count < len(rays) and (rays[count, 0] != 0.0 or rays[count, 1] != 0.0 or rays[count, 2] != 0.0):
        count += 1
    inside, best = count > 2, x[0] * x[0] + x[1] * x[1] + x[2] * x[2]
    y, normal = np.zeros(3), np.empty(3)
    # sides between neighbouring rays: y = (1 − n nᵀ) x where that is between the two
    for j in range(count if count > 2 else count - 1):
        a, e = rays[j], rays[(j + 1) % count]
        normal[0], normal[1], normal[2] = a[1] * e[2] - a[2] * e[1], a[2] * e[0] - a[0] * e[2], a[0] * e[1] - a[1] * e[0]
        length = np.sqrt(normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2)
        height = (normal[0] * x[0] + normal[1] * x[1] + normal[2] * x[2]) / length
        inside = inside and height >= 0.0
        if height > 0.0 and count > 2:
            continue
        xa, xe, ae = x @ a, x @ e, a @ e
        if xa - ae * xe >= 0.0 and xe - ae * xa >= 0.0 and height * height < best:
            best = height * height
            for c in range(3):
                y[c] = x[c] - height * normal[c] / length
                for q in range(3):
                    slope[c, q] = (1.0 if c == q else 0.0) - normal[c] * normal[q] / length**2
    # inside: y = x
    if inside:
        slope[:] = 0.0
        slope[0, 0] = slope[1, 1] = slope[2, 2] = 1.0
        return
    # edges: y = a aᵀ x where aᵀ x > 0
    for j in range(count):
        a = rays[j]
        along = a[0] * x[0] + a[1] * x[1] + a[2] * x[2]
        if along <= 0.0:
            continue
        distance = (x[0] - along * a[0]) ** 2 + (x[1] - along * a[1]) ** 2 + (x[2] - along * a[2]) ** 2
        if distance < best:
            best = distance
            for c in range(3):
                y[c] = along * a[c]
                for q in range(3):
                    slope[c, q] = a[c] * a[q]
    copy(y, x)


@compiled
def _project_on_round(x: Array, mu: float, slope: Array) -> None:
    """`project` on the cone ‖(s, t)‖ ≤ μ n."""
    across = np.hypot(x[0], x[1])
    if across <= mu * x[2]:
        slope[0, 0] = slope[1, 1] = slope[2, 2] = 1.0
        return
    # outside: (μ (s, t)/‖(s, t)‖, 1) h, h = (μ ‖(s, t)‖ + n) / (1 + μ²), or the apex
    height = (mu * across + x[2]) / (1.0 + mu * mu)
    if height <= 0.0:
        x[:] = 0.0
        return
    # slope of that
    a, c, share, along = x[0] / across, x[1] / across, mu * height / across, 1.0 / (1.0 + mu * mu)
    pull = mu * mu * along
    slope[0, 0], slope[1, 1] = share * c * c + pull * a * a, share * a * a + pull * c * c
    slope[0, 1] = slope[1, 0] = (pull - share) * a * c
    slope[0, 2] = slope[2, 0] = mu * along * a
    slope[1, 2] = slope[2, 1] = mu * along * c
    slope[2, 2] = along
    x[0], x[1], x[2] = share * x[0], share * x[1], height
