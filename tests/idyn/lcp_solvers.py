"""The package's LCP solvers behind one face: an `Lcp` in; z, status and basis out."""

from functools import partial

import numpy as np
from oracles import lcp_error

from idyn.solvers.lemke import covering, lemke
from idyn.solvers.pivoting import dual_active_set, ppm
from idyn.status import Status

PIVOTS = 1000


def by_lemke(lcp, guess=None, spread=0.0):
    z, status, _, basis = lemke(lcp.M, lcp.q, PIVOTS, covering(len(lcp.q), spread))
    return z, Status(status), basis


def by_ppm(lcp, guess=None):
    guess = np.zeros(len(lcp.q), dtype=bool) if guess is None else guess
    z, status, _, basis = ppm(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), guess, 0.0, PIVOTS)
    return z, Status(status), basis


def by_dual(lcp, guess=None):
    z, status, _, basis = dual_active_set(lcp.Y, lcp.q, (lcp.Y**2).sum(axis=1), 0.0, PIVOTS)
    return z, Status(status), basis


SOLVERS = {"lemke": by_lemke, "lemke, uneven": partial(by_lemke, spread=0.01), "ppm": by_ppm, "dual active set": by_dual}


def check_solution(lcp, z, basis):
    """z solves the problem, and it is the solution that belongs to `basis`."""
    scale = 1 + np.abs(lcp.q).max(initial=0)
    assert lcp_error(lcp.M, lcp.q, z) < 1e-9 * scale
    assert z.min(initial=0) >= -1e-12 * scale
    assert not z[~basis].any()
    assert np.abs((lcp.M @ z + lcp.q)[basis]).max(initial=0) < 1e-9 * scale
