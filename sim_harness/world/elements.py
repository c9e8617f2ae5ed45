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

from idyn.jit.compiled import compiled
from idyn.types import Array

Energy = Literal["corotational", "neo-hookean"]

ROWS = 9  # number of rows of each tetrahedron
FLAT = 1e-9  # smallest curvature h_a of a stretch, as a share of μ
PAIRS = np.array([(0, 1), (0, 2), (1, 2)])  # pairs of axes that are flipped and twisted


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


@compiled
def _constants(mu: float, lam: float) -> tuple[float, float, float]:
    """Return C₁, D₁ [Pa] and α = 1 + C₁ / D₁, for which the body is stress-free at s = 1."""
    first, second = 0.5 * mu, 0.5 * (lam + mu)
    return first, second, 1.0 + first / second


@compiled
def stretch_slopes(s: Array, mu: float, lam: float, hyper: bool) -> tuple[Array, Array]:
    """Return ∂Ψ/∂s (3) and ∂²Ψ/∂s² (3, 3) [Pa] of Ψ = μ Σ (s − 1)² + ½ λ (Σ s − 3)², or C₁ (Σ s² − 3) + D₁ (J − α)²."""
    c, H = np.zeros(3), np.zeros((3, 3))
    first, second, alpha = _constants(mu, lam)
    J = s[0] * s[1] * s[2]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if hyper:
            c[i] = 2.0 * (first * s[i] + second * (J - alpha) * s[j] * s[k])
            H[i, i] = 2.0 * (first + second * (s[j] * s[k]) ** 2)
            H[i, j] = H[j, i] = 2.0 * second * s[k] * (2.0 * J - alpha)
        else:
            c[i] = 2.0 * mu * (s[i] - 1.0) + lam * (s.sum() - 3.0)
            H[i, i] = 2.0 * mu + lam
            H[i, j] = H[j, i] = lam
    return c, H


@compiled
def shear_slopes(s: Array, k: int, mu: float, lam: float, hyper: bool) -> tuple[float, float]:
    """Return the curvatures h_a of the flip and the twist in the plane of the axes i and j, those other than k [Pa].

    flip: (Ψ_i − Ψ_j) / (s_i − s_j), twist: (Ψ_i + Ψ_j) / (s_i + s_j), with Ψ_i = ∂Ψ/∂s_i
    """
    if hyper:
        first, second, alpha = _constants(mu, lam)
        pressure = second * (s[0] * s[1] * s[2] - alpha) * s[k]
        return 2.0 * (first - pressure), 2.0 * (first + pressure)
    both = s.sum() - s[k]
    if both <= FLAT:
        return 2.0 * mu, 0.0
    return 2.0 * mu, 2.0 * (mu * (both - 2.0) + lam * (s.sum() - 3.0)) / both


@compiled
def principal(F: Array) -> tuple[Array, Array, Array]:
    """Return rotations U and V and stretches s with F = U diag(s) Vᵀ; the last stretch of an inverted element is negative."""
    U, s, Vt = np.linalg.svd(F)
    V = Vt.T.copy()
    if np.linalg.det(U) < 0.0:
        U[:, 2], s[2] = -U[:, 2], -s[2]
    if np.linalg.det(V) < 0.0:
        V[:, 2], s[2] = -V[:, 2], -s[2]
    return U, s, V


@compiled
def deformation(body: Elastic, e: int, x: Array) -> Array:
    """Return the deformation gradient F = Σ x_k b_kᵀ of tetrahedron e; x: all corners [m] (n, 3)."""
    F = np.zeros((3, 3))
    for k in range(4):
        for i in range(3):
            for j in range(3):
                F[i, j] += x[body.nodes[e, k], i] * body.b[e, k, j]
    return F


@compiled
def element_rows(body: Elastic, x: Array) -> tuple[Array, Array, Array]:
    """Return the Jacobian G with respect to corner velocities (9k, 3n), g (9k) and compliance [1/J] (9k) at corners x [m]."""
    count = len(body.nodes)
    G, g, compliance = np.zeros((ROWS * count, 3 * len(x))), np.zeros(ROWS * count), np.zeros(ROWS * count)
    for e in range(count):
        U, s, V = principal(deformation(body, e, x))
        for a in range(ROWS):  # g = (∂Ψ/∂F : Q_a) / h_a, e = 1 / (volume h_a), G = U Q_a Vᵀ : ∂F/∂x
            Q, curvature, slope = direction(body, s, a)
            row = ROWS * e + a
            g[row], compliance[row] = slope / curvature, 1.0 / (body.volumes[e] * curvature)
            Q = U @ Q @ V.T
            for k in range(4):
                for i in range(3):
                    for j in range(3):
                        G[row, 3 * body.nodes[e, k] + i] += Q[i, j] * body.b[e, k, j]
    return G, g, compliance


@compiled
def direction(body: Elastic, s: Array, a: int) -> tuple[Array, float, float]:
    """Return Q_a in principal axes (3, 3), and curvature h_a and slope of Ψ along Q_a [Pa].

    Q_a is 0 where the curvature is negative.
    """
    Q = np.zeros((3, 3))
    if a < 3:
        c, H = stretch_slopes(s, body.mu, body.lam, body.hyper)
        curvatures, axes = np.linalg.eigh(H)
        for i in range(3):
            Q[i, i] = axes[i, a]
        return Q, max(curvatures[a], FLAT * body.mu), np.dot(axes[:, a].copy(), c)
    i, j = PAIRS[(a - 3) % 3]
    flip, twist = shear_slopes(s, 3 - i - j, body.mu, body.lam, body.hyper)
    curvature, sign = (flip, 1.0) if a < 6 else (twist, -1.0)
    if curvature <= FLAT * body.mu:
        return Q, body.mu, 0.0
    Q[i, j], Q[j, i] = np.sqrt(0.5), sign * np.sqrt(0.5)
    return Q, curvature, 0.0
