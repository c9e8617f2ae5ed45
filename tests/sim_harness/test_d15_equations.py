"""The mixed LCPs of [D15] written out in full and reduced by its Eqs. 8–10, errata corrected, compared with the problems that
the engines solve."""

import msgspec
import numpy as np
from fast import every
from quantecon.optimize.lcp_lemke import lcp_lemke
from test_engines import DT, random_problems

from sim_harness.engines.contact_space import contact_space
from sim_harness.engines.engine import Rows
from sim_harness.engines.no_slip import NoSlip, stick_rows
from sim_harness.engines.viscous import Viscous


def reduced(M, held, N, drive, right):
    """F (n, n), e without h (n), and x(y): A x − (N, 0)ᵀ y + g = 0 with A = [M −Hᵀ; H 0] and g = −(drive, right)."""
    m, k = len(M), len(held)
    A = np.block([[M, -held.T], [held, np.zeros((k, k))]])
    C = np.vstack([-N.T, np.zeros((k, len(N)))])
    D, g = -C.T, -np.concatenate([drive, right])
    inverse = np.linalg.inv(A)
    return -D @ inverse @ C, -D @ inverse @ g, lambda y: -inverse @ (C @ y + g), m


def closed(problem, rng):
    """With two closures at rest, and contacts that touch."""
    rows = Rows(G=rng.normal(size=(2, 18)), g=np.zeros(2), stops=np.zeros(2, dtype=bool))
    return msgspec.structs.replace(problem, rows=rows, gaps=np.zeros(len(problem.mu)))


@every("seed", range(5))
def test_no_slip_engine_solves_equations_47_to_57_of_d15(seed):
    """All contacts of the set are held, as there: the LCP of the engine, its matrix and its vector."""
    rng, compared = np.random.default_rng(seed), 0
    for problem in random_problems("quadruped", 20):
        p = closed(problem, rng)
        S = p.J.reshape(-1, 3, 18)
        held = np.vstack([p.rows.G, *S[:, :2]])
        if np.linalg.matrix_rank(held) < len(held):
            continue
        F, e, x_of, _ = reduced(p.M, held, S[:, 2], p.M @ p.v + DT * (p.force - p.h), np.zeros(len(held)))
        space = contact_space(p)
        stick = stick_rows(space.Y, space.b, np.zeros(len(p.mu)), np.arange(len(p.mu)))
        scale = np.abs(F).max()
        np.testing.assert_allclose(stick.Y @ stick.Y.T, F, atol=1e-9 * scale)
        np.testing.assert_allclose(stick.r, e, atol=1e-8 * max(1.0, np.abs(e).max()))
        solution, answer = NoSlip(recovery=0.0).solve(p), lcp_lemke(F, e)
        closing = space.b[2::3].max(initial=-1.0) < -1e-6
        if closing and answer.success and (answer.z > 1e-9).all():  # all close and all press: the paper's model to the letter
            compared += 1
            x = x_of(answer.z)
            np.testing.assert_allclose(solution.v_plus, x[:18], atol=1e-8)
            np.testing.assert_allclose(solution.rows, x[18:20], atol=1e-8)
            np.testing.assert_allclose(solution.p[:, :2].ravel(), x[20:], atol=1e-8)
    assert compared > 0


@every("seed", range(5))
def test_viscous_engine_solves_equations_29_to_42_of_d15(seed):
    """Accelerations and forces of contacts that rest, against the MLCP solved by an independent Lemke."""
    rng = np.random.default_rng(seed)
    pressing = 0
    for problem in random_problems("quadruped", 20):
        p = closed(problem, rng)
        N, T = p.J[2::3], np.delete(p.J, np.s_[2::3], axis=0)
        fixed = np.vstack([N, p.rows.G])
        slide = np.linalg.svd(fixed)[2][len(fixed) :].T
        bias = rng.normal(size=len(N))
        p = msgspec.structs.replace(p, v=slide @ slide.T @ p.v, bias=lambda bias=bias: bias)
        solution = Viscous(coefficient=2.0, level="acceleration").solve(p)
        free = contact_space(p).b[2::3]
        if not len(free) or free.max() > 0.0:
            continue  # one of them does not touch
        drag = 2.0 * T.T @ T @ p.v
        F, e, x_of, _ = reduced(p.M, p.rows.G, N, p.force - p.h - drag, np.zeros(2))
        answer = lcp_lemke(F, e + bias)
        assert answer.success
        x = x_of(answer.z)
        np.testing.assert_allclose((solution.v_plus - p.v) / DT, x[:18], atol=1e-6 * max(1.0, np.abs(x).max()))
        np.testing.assert_allclose(solution.p[:, 2] / DT, answer.z, atol=1e-6 * max(1.0, answer.z.max()))
        np.testing.assert_allclose(solution.rows / DT, x[18:], atol=1e-6 * max(1.0, np.abs(x).max()))
        pressing += np.count_nonzero(answer.z)
    assert pressing > 5
