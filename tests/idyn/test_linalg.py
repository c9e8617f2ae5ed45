"""Small dense algebra of the kernels against numpy and SciPy."""

import numpy as np
import scipy.linalg
from fast import every

from idyn.laws.law import polygon
from idyn.laws.no_slip import select_rows
from idyn.solvers.linalg import backward, cholesky, forward, lu_factor, lu_solve, null_space


@every("n", [0, 1, 2, 5, 12])
def test_cholesky_and_triangular_solves(n):
    rng = np.random.default_rng(n)
    B = rng.normal(size=(n, n + 2))
    A, x = B @ B.T, rng.normal(size=n)
    L = A.copy()
    cholesky(L)
    np.testing.assert_allclose(L, np.linalg.cholesky(A) if n else A, atol=1e-12)
    y = x.copy()
    forward(L, y)
    np.testing.assert_allclose(L @ y, x, atol=1e-12)
    backward(L, y)
    np.testing.assert_allclose(A @ y, x, atol=1e-9)


def test_cholesky_of_an_indefinite_matrix_is_nan():
    A = np.array([[1.0, 2.0], [2.0, 1.0]])
    with np.errstate(all="ignore"):
        cholesky(A)
    assert np.isnan(A[1, 1])


@every("n", [1, 2, 5, 12])
def test_lu_solves_what_needs_pivoting(n):
    rng = np.random.default_rng(n)
    A, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A[0, 0] = 0.0 if n > 1 else 1.0
    before = A.copy()
    LU, order, regular = lu_factor(A)
    assert regular
    np.testing.assert_array_equal(A, before)
    np.testing.assert_allclose(lu_solve(LU, order, b), np.linalg.solve(A, b), rtol=1e-8)


@every("A", [np.zeros((2, 2)), np.ones((3, 3)), np.diag([1.0, 0.0]), np.array([[np.nan]])])
def test_lu_reports_a_singular_matrix(A):
    assert not lu_factor(A)[2]


@every(("rows", "m", "rank"), [(6, 12, 6), (6, 12, 3), (6, 3, 3), (6, 4, 0), (0, 4, 0), (6, 0, 0), (3, 9, 1)])
def test_null_space_is_orthonormal_and_complete(rows, m, rank):
    """Orthonormal, of the right size, and mapped to zero."""
    rng = np.random.default_rng(rows + m)
    E = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, m))
    Z = null_space(E)
    assert Z.shape == (m, m - rank)
    np.testing.assert_allclose(Z.T @ Z, np.eye(m - rank), atol=1e-12)
    np.testing.assert_allclose(E @ Z, 0, atol=1e-12)
    if m > rank > 0:
        np.testing.assert_allclose(Z @ Z.T, (S := scipy.linalg.null_space(E)) @ S.T, atol=1e-10)


@every("rank", [0, 1, 3, 5])
def test_row_selection_is_a_basis_of_the_rows(rank):
    rng = np.random.default_rng(rank)
    Y = rng.normal(size=(12, rank)) @ rng.normal(size=(rank, 6))
    wanted = rng.uniform(size=12) < 0.8
    preferred = np.array([False, True, True, False])
    X, U, R = np.zeros(6, dtype=np.int64), np.zeros((6, 6)), np.zeros((6, 6))
    k = select_rows(Y, wanted, preferred, 1e-9, X, U, R)
    assert k == min(rank, wanted.sum())
    assert wanted[X[:k]].all()
    first = wanted & np.repeat(preferred, 3)
    assert preferred[X[:k] // 3].sum() == min(rank, first.sum())
    np.testing.assert_allclose(U[:k] @ U[:k].T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(R[:k, :k] @ U[:k], Y[X[:k]], atol=1e-10)
    np.testing.assert_allclose(np.tril(R[:k, :k]), R[:k, :k])
    rest = Y[wanted] - Y[wanted] @ U[:k].T @ U[:k]
    np.testing.assert_allclose(rest, 0, atol=1e-9)


@every("k", [4, 6, 8])
def test_polygon_corners_and_normals_match_trigonometry(k):
    inside, outside = polygon(k), polygon(k, circumscribed=True)
    np.testing.assert_allclose(np.linalg.norm(inside, axis=1), 1, atol=1e-15)
    middles = (outside + np.roll(outside, -1, axis=0)) / 2
    np.testing.assert_allclose(np.linalg.norm(middles, axis=1), 1, atol=1e-15)
    after = np.roll(inside, -1, axis=0)
    turns = inside[:, 0] * after[:, 1] - inside[:, 1] * after[:, 0]
    assert (turns > 0).all()
    np.testing.assert_array_equal(inside[0], [1, 0])
