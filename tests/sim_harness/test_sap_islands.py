"""The engine `sap`: which bodies are solved together, and the factor within its profile."""

import numpy as np
import pytest
from fast import every, fast, first_is_fast
from sap_bodies import DT, Body, G
from scipy.linalg import block_diag, cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from sim_harness.engines.linalg import (
    backward_within,
    cholesky_within,
    forward_within,
    islands_of,
    profile,
    touched,
    trees_of,
)
from sim_harness.engines.sap import Sap


def definite(rng, n):
    B = rng.normal(size=(n, n))
    return B @ B.T + np.eye(n)


def test_trees_are_the_blocks_of_the_inertia():
    rng = np.random.default_rng(1)
    M = block_diag(definite(rng, 3), np.diag([2.0]), definite(rng, 4))
    assert trees_of(M).tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    M[0, 7] = M[7, 0] = 0.1
    assert trees_of(M).tolist() == [0] * 8
    assert trees_of(np.eye(3)).tolist() == [0, 1, 2]
    assert trees_of(np.zeros((0, 0))).tolist() == []


def test_islands_are_the_connected_components():
    rng = np.random.default_rng(2)
    for _ in range(50):
        trees = int(rng.integers(1, 15))
        touches = np.zeros((int(rng.integers(0, trees)), trees), dtype=bool)
        for row in touches:
            row[rng.choice(trees, size=min(trees, int(rng.integers(1, 4))), replace=False)] = True
        order, island = islands_of(touches)
        count, expected = connected_components(touches.T.astype(int) @ touches, directed=False)
        assert sorted(order.tolist()) == list(range(trees))
        assert island.max() + 1 == count
        for a in range(trees):
            assert ((island == island[a]) == (expected == expected[a])).all()
        assert (np.diff(island[order]) >= 0).all()


def test_a_chain_has_a_narrow_profile_in_any_numbering():
    rng = np.random.default_rng(3)
    names = rng.permutation(30)
    touches = np.zeros((29, 30), dtype=bool)
    for i in range(29):
        touches[i, names[[i, i + 1]]] = True
    order, _ = islands_of(touches)
    place = np.argsort(order)
    assert max(abs(place[names[i]] - place[names[i + 1]]) for i in range(29)) == 1


def test_constraints_list_the_trees_they_touch():
    J = np.zeros((6, 4))
    J[1, 3], J[5, 0] = 1.0, -2.0
    assert touched(J, np.array([0, 0, 1, 1])).tolist() == [[False, True], [True, False]]


@every("n", [1, 5, 40])
def test_the_profile_factor_solves_linear_systems(n):
    rng = np.random.default_rng(n)
    A = definite(rng, n) + n * np.eye(n)
    for i in range(n):
        A[i, : max(0, i - int(rng.integers(0, 5)))] = 0.0
    A = np.tril(A) + np.tril(A, -1).T
    first, b = profile(A), rng.normal(size=n)
    L, x = A.copy(), b.copy()
    cholesky_within(L, first)
    forward_within(L, first, x)
    backward_within(L, first, x)
    np.testing.assert_allclose(x, cho_solve(cho_factor(A), b), atol=1e-12)


@pytest.mark.parametrize("count", fast([1, 2, 5, 10], 5))
def test_the_lowest_of_a_stack_sinks_by_the_weight_of_all(count):
    """N points of 1 kg, one on the other, near rigid: R_n is that of the lowest alone."""
    nv, rows = 3 * count, []
    for i in range(count):
        J = np.zeros((3, nv))
        J[:, 3 * i : 3 * i + 3] = np.eye(3)
        if i:
            J[:, 3 * i - 3 : 3 * i] = -np.eye(3)
        rows.append(J)
    J = np.vstack(rows)
    body = Body(np.eye(nv), np.tile([0.0, 0.0, G], count), J, lambda q: J[2::3] @ q, [0.5] * count)
    engine = Sap(stiffness=np.inf, dissipation=DT, candidates="near")
    body.run(engine, DT, 2000)
    R_n = 1 / np.sqrt(3) / (4 * np.pi**2)
    assert -body.q[2] == pytest.approx(count * G * DT * (DT + DT) * R_n, rel=1e-4)


@pytest.mark.parametrize("points", first_is_fast([3, 4, 16]))
def test_a_patch_of_points_is_one_spring_that_resists_turning(points):
    """k/N at each: mg/k in all; a torque about the normal below what its friction bears turns it by creep alone."""
    angle = 2 * np.pi * np.arange(points) / points
    at = 0.1 * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(points)])
    J = np.vstack([[[1, 0, 0, -y], [0, 1, 0, x], [0, 0, 1, 0]] for x, y, _ in at])
    body = Body(np.diag([1.0, 1.0, 1.0, 0.005]), np.array([0, 0, G, 0]), J, lambda q: np.full(points, q[2]), [0.5] * points)
    engine = Sap(stiffness=1e4 / points, dissipation=0.01, candidates="near")
    body.run(engine, DT, 2000, np.array([0, 0, 0, 0.9 * 0.5 * G * 0.1]))
    assert -body.q[2] == pytest.approx(G / 1e4, rel=1e-6)
    assert 0.0 < body.v[3] < 1e-3
    body.run(engine, DT, 100, np.array([0, 0, 0, 1.1 * 0.5 * G * 0.1]))
    assert body.v[3] > 0.5
