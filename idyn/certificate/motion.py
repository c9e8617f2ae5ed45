"""Motion of bodies for the certificate: twists along the tree, velocities of points, solution with M_uu by elimination."""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.terms.stages import Given
from idyn.types import Array

Three = tuple[float, float, float]


@compiled
def cross(x: Array | Three, y: Array | Three) -> Three:
    """Return x × y."""
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


@compiled
def dot(x: Array, y: Array) -> float:
    """Return x · y."""
    total = 0.0
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled
def point_velocity(twist: Array, x: Array | tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the velocity v_O + ω × x of the point x of a body with spatial velocity `twist` at the world origin."""
    return (
        twist[0] + twist[4] * x[2] - twist[5] * x[1],
        twist[1] + twist[5] * x[0] - twist[3] * x[2],
        twist[2] + twist[3] * x[1] - twist[4] * x[0],
    )


@compiled
def body_twists(g: Given, v: Array, twists: Array) -> None:
    """Fill the spatial velocities of the bodies at the world origin (njoints, 6), summed along the tree."""
    axes, parents, dof_joint, dof = g.axes, g.model.parents, g.model.dof_joint, 0
    for c in range(6):
        twists[0, c] = 0.0
    for j in range(1, len(twists)):
        for c in range(6):
            twists[j, c] = twists[parents[j], c]
        while dof < len(v) and dof_joint[dof] == j:
            for c in range(6):
                twists[j, c] += axes[dof, c] * v[dof]
            dof += 1


@compiled
def sign_of(g: Given, k: int, j: int) -> int:
    """Return +1 if degree of freedom j moves only the first body of contact k, −1 if only the second, 0 if both or neither."""
    return int(g.model.support[g.bodies[k], j]) - int(g.model.support[g.others[k], j])


@compiled
def divide_by_inertia(g: Given, x: Array) -> None:
    """Replace x by M_uu⁻¹ x, by Gaussian elimination without pivoting: M_uu is positive definite."""
    nu = len(g.model.u)
    A = np.empty((nu, nu))
    for i in range(nu):
        for j in range(nu):
            A[i, j] = g.M[g.model.u[i], g.model.u[j]]
    # elimination
    for j in range(nu):
        for i in range(j + 1, nu):
            f = A[i, j] / A[j, j]
            for k in range(j, nu):
                A[i, k] -= f * A[j, k]
            x[i] -= f * x[j]
    # substitution
    for i in range(nu - 1, -1, -1):
        for k in range(i + 1, nu):
            x[i] -= A[i, k] * x[k]
        x[i] /= A[i, i]


@compiled
def midpoint(g: Given, k: int) -> tuple[float, float, float]:
    """Return the midpoint of the two points of closure k in the world [m]."""
    one, other = g.ends[k, 0], g.ends[k, 1]
    return 0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1]), 0.5 * (one[2] + other[2])
