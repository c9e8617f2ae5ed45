"""Contacts and constraint rows of a step as one list of items with three Jacobian rows S, T, N each."""

import numpy as np

from idyn.types import Array
from sim_harness.engines.engine import ForwardProblem


def items_of(
    problem: ForwardProblem, contacts: Array, rows: Array, stiffness: float, dissipation: float
) -> tuple[Array, Array, Array, Array, Array]:
    """Return J (3k, nv), friction, stiffness [N/m], τ_d [s] and gaps [m or rad] (k) of selected contacts, then selected rows.

    Constraint rows get zero tangent rows and zero friction. A rigid item has infinite stiffness.

    contacts, rows: true for selected contacts (n) and constraint rows (m)
    stiffness, dissipation: for contacts when the problem has no stiffness [N/m] or no dissipation [s]
    """
    a, n, m = problem, np.count_nonzero(contacts), np.count_nonzero(rows)
    J, (mu, tau, gaps), k = np.zeros((3 * (n + m), len(a.v))), np.zeros((3, n + m)), np.full(n + m, np.inf)
    J[: 3 * n], mu[:n], gaps[:n] = a.J[np.repeat(contacts, 3)], a.mu[contacts], a.gaps[contacts]
    k[:n] = stiffness if a.stiffness is None else a.stiffness[contacts]
    tau[:n] = dissipation if a.dissipation is None else a.dissipation[contacts]
    if a.rows is not None:
        J[3 * n + 2 :: 3], gaps[n:], tau[n:] = a.rows.G[rows], a.rows.g[rows], a.rows.damping_times[rows]
        if a.rows.compliance is not None:
            on = a.rows.yields[rows]
            k[n:][on] = 1.0 / a.rows.compliance[rows][on]
    return J, mu, k, tau, gaps
