"""Elastic tetrahedra as constraint rows: nine rows each, along the eigenvectors of the energy Hessian.

    F = Σ x_k b_kᵀ = U diag(s) Vᵀ        energy = volume · Ψ(s)      Q_a: eigenmatrices of F, ∂²Ψ/∂F² = Σ h_a Q_a ⊗ Q_a
    row a:  G = Q_a : ∂F/∂x      e = 1 / (volume h_a)      −g / e = −volume (∂Ψ/∂F : Q_a)
Three eigenmatrices stretch, three flip and three twist pairs of axes [Smith et al. 2019]. Together they give the exact force
and stiffness, except along directions with negative curvature h_a, which get neither force nor stiffness.

Differences from the paper [Macklin §5.2, App. B]: the paper has three rows, along the stretches, and represents shear by the
change of their directions, so an iteration that omits this change has no shear stiffness. Here D₁ = (λ + μ) / 2 instead of
λ / 2, so small strains match the given Young's modulus and Poisson's ratio.
"""

from typing import Literal, NamedTuple

import numpy as np

from idyn.types import Array

Energy = Literal["corotational", "neo-hookean"]

ROWS = 9  # number of rows of each tetrahedron
FLAT = 1e-9  # smallest curvature h_a of a stretch, as a share of μ
PAIRS = ((0, 1), (0, 2), (1, 2))  # pairs of axes that are flipped and twisted


class Elastic(NamedTuple):
    """Tetrahedra of one material with their rest shape."""

    nodes: Array  # indices of the four corners (k, 4)
    b: Array  # gradients of the shape functions of the corners [1/m] (k, 4, 3)
    volumes: Array  # [m³] (k)
    mu: float  # Lamé's second constant [Pa]
    lam: float  # Lamé's first constant [Pa]
    hyper: bool  # true for stable neo-Hookean, false for co-rotational energy


def elastic_body(points: Array, nodes: Array, young: float, poisson: float, energy: Energy) -> Elastic:
    """Return tetrahedra that are stress-free with their corners at `points` [m] (n, 3); nodes: indices of corners (k, 4)."""
    edges = points[nodes[:, 1:]] - points[nodes[:, :1]]  # rows: edges from the first corner
    inverse = np.linalg.inv(edges)
    b = np.concatenate([-inverse.sum(axis=2)[:, None], inverse.transpose(0, 2, 1)], axis=1)
    mu, lam = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    return Elastic(nodes, b, np.abs(np.linalg.det(edges)) / 6, mu, lam, energy == "neo-hookean")


def _constants(mu: float, lam: float) -> tuple[float, float, float]:
    """Return C₁, D₁ [Pa] and α = 1 + C₁ / D₁, for which the body is stress-free at s = 1."""
    first, second = 0.5 * mu, 0.5 * (lam + mu)
    return first, second, 1.0 + first / second


def stretch_slopes(s: Array, mu: float, lam: float, hyper: bool) -> tuple[Array, Array]:
    """Return ∂Ψ/∂s (..., 3) and ∂²Ψ/∂s² (..., 3, 3) [Pa] at stretches s (..., 3) of Ψ = μ Σ (s − 1)² + ½ λ (Σ s − 3)², or
    C₁ (Σ s² − 3) + D₁ (J − α)²."""
    if not hyper:
        c = 2.0 * mu * (s - 1.0) + lam * (s.sum(axis=-1, keepdims=True) - 3.0)
        return c, np.broadcast_to(2.0 * mu * np.eye(3) + lam, (*s.shape, 3))
    first, second, alpha = _constants(mu, lam)
    J, c, H = s.prod(axis=-1), np.empty(s.shape), np.empty((*s.shape, 3))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        area = s[..., j] * s[..., k]
        c[..., i] = 2.0 * (first * s[..., i] + second * (J - alpha) * area)
        H[..., i, i] = 2.0 * (first + second * area**2)
        H[..., i, j] = H[..., j, i] = 2.0 * second * s[..., k] * (2.0 * J - alpha)
    return c, H


def shear_slopes(s: Array, k: int, mu: float, lam: float, hyper: bool) -> tuple[Array, Array]:
    """Return the curvatures h_a of the flip and the twist in the plane of the axes i and j, those other than k, at stretches s
    (..., 3) [Pa].

    flip: (Ψ_i − Ψ_j) / (s_i − s_j), twist: (Ψ_i + Ψ_j) / (s_i + s_j), with Ψ_i = ∂Ψ/∂s_i
    """
    if hyper:
        first, second, alpha = _constants(mu, lam)
        pressure = second * (s.prod(axis=-1) - alpha) * s[..., k]
        return 2.0 * (first - pressure), 2.0 * (first + pressure)
    total = s.sum(axis=-1)
    both = total - s[..., k]
    twist = 2.0 * (mu * (both - 2.0) + lam * (total - 3.0)) / np.maximum(both, FLAT)
    return np.full(both.shape, 2.0 * mu), np.where(both > FLAT, twist, 0.0)


def principal(F: Array) -> tuple[Array, Array, Array]:
    """Return rotations U and V (..., 3, 3) and stretches s (..., 3) with F = U diag(s) Vᵀ (..., 3, 3); the last stretch of an
    inverted element is negative."""
    U, s, Vt = np.linalg.svd(F)
    V = np.swapaxes(Vt, -1, -2)
    for R in (U, V):
        side = np.where(np.linalg.det(R) < 0.0, -1.0, 1.0)
        R[..., 2] *= side[..., None]
        s[..., 2] *= side
    return U, s, V


def deformation(body: Elastic, e: int | slice, x: Array) -> Array:
    """Return the deformation gradients F = Σ x_k b_kᵀ of the tetrahedra e (..., 3, 3); x: all corners [m] (n, 3)."""
    return np.swapaxes(x[body.nodes[e]], -1, -2) @ body.b[e]


def element_rows(body: Elastic, x: Array) -> tuple[Array, Array, Array]:
    """Return the Jacobian G with respect to corner velocities (9k, 3n), g (9k) and compliance [1/J] (9k) at corners x [m]."""
    count = len(body.nodes)
    U, s, V = principal(deformation(body, slice(None), x))
    Q, curvature, slope = _directions(body, s)
    # g = (∂Ψ/∂F : Q_a) / h_a, e = 1 / (volume h_a), G = U Q_a Vᵀ : ∂F/∂x
    along = U[:, None] @ Q @ np.swapaxes(V, -1, -2)[:, None]
    G = np.zeros((count, ROWS, len(x), 3))
    G[np.arange(count)[:, None], :, body.nodes] = np.einsum("eaij,ekj->ekai", along, body.b)
    compliance = 1.0 / (body.volumes[:, None] * curvature)
    return G.reshape(ROWS * count, 3 * len(x)), (slope / curvature).ravel(), compliance.ravel()


def _directions(body: Elastic, s: Array) -> tuple[Array, Array, Array]:
    """Return the Q_a in principal axes (k, 9, 3, 3), and the curvatures h_a and slopes of Ψ along them (k, 9) [Pa].

    Q_a is 0 where the curvature is negative.
    """
    count, flat = len(s), FLAT * body.mu
    Q, curvature, slope = np.zeros((count, ROWS, 3, 3)), np.empty((count, ROWS)), np.zeros((count, ROWS))
    c, H = stretch_slopes(s, body.mu, body.lam, body.hyper)
    curvatures, axes = np.linalg.eigh(H)
    curvature[:, :3], slope[:, :3] = np.maximum(curvatures, flat), np.einsum("eia,ei->ea", axes, c)
    for i in range(3):
        Q[:, :3, i, i] = axes[:, i]
    for pair, (i, j) in enumerate(PAIRS):
        shears = shear_slopes(s, 3 - i - j, body.mu, body.lam, body.hyper)
        for a, sign, h in ((3 + pair, 1.0, shears[0]), (6 + pair, -1.0, shears[1])):
            Q[:, a, i, j] = np.where(h > flat, np.sqrt(0.5), 0.0)
            Q[:, a, j, i] = sign * Q[:, a, i, j]
            curvature[:, a] = np.where(h > flat, h, body.mu)
    return Q, curvature, slope
