"""Elastic tetrahedra as constraint rows: nine for each, along the directions in which its energy bends.

    F = Σ x_k b_kᵀ = U diag(s) Vᵀ        U = volume · Ψ(s)        Q_a: directions of F, orthonormal, ∂²Ψ/∂F² = Σ h_a Q_a ⊗ Q_a
    row a:  G = Q_a : ∂F/∂x      e = 1 / (volume h_a)      −g / e = −volume (∂Ψ/∂F : Q_a)
Three directions stretch, three flip and three twist pairs of axes [Smith et al. 2019]. Together they carry the exact force and
the exact stiffness but for directions along which the energy bends the other way: those do not press and are not stiff.

Different from the paper [Macklin §5.2, App. B]: it has three rows, along the stretches, and leaves shear to the change of their
directions, all of which is lost where that is left out; and D₁ = (λ + μ) / 2 here where it has λ / 2, so that small strains are
those of the given Young's modulus and Poisson's ratio.
"""

from typing import Literal, NamedTuple

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array

Energy = Literal["corotational", "neo-hookean"]

ROWS = 9
"""Of each tetrahedron."""

FLAT = 1e-9
"""A stretch's bending of less than this share of μ is taken for this."""

PAIRS = np.array([(0, 1), (0, 2), (1, 2)])


class Elastic(NamedTuple):
    """One material, its tetrahedra, and how they lie at rest.

    nodes: four corners of each (k, 4); b: gradients of the corners' shape functions [1/m] (k, 4, 3); volumes: [m³] (k)
    mu, lam: Lamé's constants [Pa]; hyper: stable neo-Hookean, or else co-rotational
    """

    nodes: Array
    b: Array
    volumes: Array
    mu: float
    lam: float
    hyper: bool


def elastic_body(points: Array, nodes: Array, young: float, poisson: float, energy: Energy) -> Elastic:
    """Tetrahedra that are at rest with their corners at `points` [m] (n, 3); nodes: (k, 4)"""
    edges = points[nodes[:, 1:]] - points[nodes[:, :1]]  # rows: edges from the first corner
    inverse = np.linalg.inv(edges)
    b = np.concatenate([-inverse.sum(axis=2)[:, None], inverse.transpose(0, 2, 1)], axis=1)
    mu, lam = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    return Elastic(nodes, b, np.abs(np.linalg.det(edges)) / 6, mu, lam, energy == "neo-hookean")


@compiled
def _constants(mu: float, lam: float) -> tuple[float, float, float]:
    """C₁, D₁ [Pa], and α, with which the body is at rest at s = 1: α = 1 + C₁ / D₁."""
    first, second = 0.5 * mu, 0.5 * (lam + mu)
    return first, second, 1.0 + first / second


@compiled
def stretch_slopes(s: Array, mu: float, lam: float, hyper: bool) -> tuple[Array, Array]:
    """∂Ψ/∂s (3) and ∂²Ψ/∂s² (3, 3) [Pa] of Ψ = μ Σ (s − 1)² + ½ λ (Σ s − 3)², or C₁ (Σ s² − 3) + D₁ (J − α)²."""
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
    """How Ψ bends when the axes i and j, all but k, are flipped and twisted: (Ψ_i ∓ Ψ_j) / (s_i ∓ s_j) [Pa]"""
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
    """Rotations U and V and stretches s with F = U diag(s) Vᵀ; turned inside out, the last stretch is negative."""
    U, s, Vt = np.linalg.svd(F)
    V = Vt.T.copy()
    if np.linalg.det(U) < 0.0:
        U[:, 2], s[2] = -U[:, 2], -s[2]
    if np.linalg.det(V) < 0.0:
        V[:, 2], s[2] = -V[:, 2], -s[2]
    return U, s, V


@compiled
def deformation(body: Elastic, e: int, x: Array) -> Array:
    """F of tetrahedron e with its corners among x [m] (n, 3)"""
    F = np.zeros((3, 3))
    for k in range(4):
        for i in range(3):
            for j in range(3):
                F[i, j] += x[body.nodes[e, k], i] * body.b[e, k, j]
    return F


@compiled
def element_rows(body: Elastic, x: Array) -> tuple[Array, Array, Array]:
    """G for velocities of the corners (9k, 3n), g (9k), compliance [1/J] (9k), at x [m] (n, 3)."""
    count = len(body.nodes)
    G, g, compliance = np.zeros((ROWS * count, 3 * len(x))), np.zeros(ROWS * count), np.zeros(ROWS * count)
    for e in range(count):
        U, s, V = principal(deformation(body, e, x))
        for a in range(ROWS):
            Q, bend, slope = direction(body, s, a)
            row = ROWS * e + a
            g[row], compliance[row] = slope / bend, 1.0 / (body.volumes[e] * bend)
            Q = U @ Q @ V.T
            for k in range(4):
                for i in range(3):
                    for j in range(3):
                        G[row, 3 * body.nodes[e, k] + i] += Q[i, j] * body.b[e, k, j]
    return G, g, compliance


@compiled
def direction(body: Elastic, s: Array, a: int) -> tuple[Array, float, float]:
    """Q_a between the principal axes (3, 3), how Ψ bends and rises along it [Pa]; where it bends the other way Q = 0."""
    Q = np.zeros((3, 3))
    if a < 3:
        c, H = stretch_slopes(s, body.mu, body.lam, body.hyper)
        bends, axes = np.linalg.eigh(H)
        for i in range(3):
            Q[i, i] = axes[i, a]
        return Q, max(bends[a], FLAT * body.mu), np.dot(axes[:, a].copy(), c)
    i, j = PAIRS[(a - 3) % 3]
    flip, twist = shear_slopes(s, 3 - i - j, body.mu, body.lam, body.hyper)
    bend, sign = (flip, 1.0) if a < 6 else (twist, -1.0)
    if bend <= FLAT * body.mu:
        return Q, body.mu, 0.0
    Q[i, j], Q[j, i] = np.sqrt(0.5), sign * np.sqrt(0.5)
    return Q, bend, 0.0
