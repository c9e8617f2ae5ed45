"""Contact Jacobian and point forces of the simulated world.

`idyn` has its own kernels for the same quantities. They are separate on purpose: an error in one of them shows as a
disagreement between prediction and simulation.
"""

import numpy as np

from idyn.jit.compiled import compiled
from idyn.types import Array, ContactSet


def contact_jacobian(axes: Array, support: Array, contacts: ContactSet) -> Array:
    """Return J (3n, nv), rows S, T, N of each contact: J v is the velocity of body 1 relative to body 2 along s, t, n.

    axes: unit spatial velocities of the degrees of freedom (`DynamicsTerms.axes`)
    support: which degrees of freedom move each joint (`Robot.tree.support`)
    """
    c = contacts
    return relative_jacobian(axes, support, c.bodies, c.others, c.points, c.tangents, c.normals)


@compiled
def relative_jacobian(
    axes: Array, support: Array, bodies: Array, others: Array, points: Array, tangents: Array, normals: Array
) -> Array:
    """Return the Jacobian (3n, nv) of `contact_jacobian`, for contacts given by arrays.

    bodies, others: joint indices of first and second bodies, 0: environment (n)
    points: contact points [m] (n, 3)
    tangents, normals: s and n of each contact (n, 3)
    """
    n, nv = len(bodies), axes.shape[0]
    J = np.zeros((3 * n, nv))
    for i in range(n):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        for d in range(nv):
            if support[bodies[i], d] == support[others[i], d]:
                continue  # moves both bodies or neither
            sign = 1.0 if support[bodies[i], d] else -1.0
            # velocity of the point: linear + angular × point
            vx = sign * (axes[d, 0] + axes[d, 4] * z - axes[d, 5] * y)
            vy = sign * (axes[d, 1] + axes[d, 5] * x - axes[d, 3] * z)
            vz = sign * (axes[d, 2] + axes[d, 3] * y - axes[d, 4] * x)
            J[3 * i, d] = s0 * vx + s1 * vy + s2 * vz
            J[3 * i + 1, d] = t0 * vx + t1 * vy + t2 * vz
            J[3 * i + 2, d] = n0 * vx + n1 * vy + n2 * vz
    return J


@compiled
def generalised_force(axes: Array, support: Array, joint: int, point: Array, force: Array) -> Array:
    """Return the generalised force (nv) of a force [N] (3) at a point [m] (3) of the body of `joint`, both in world frame."""
    nv = axes.shape[0]
    f = np.zeros(nv)
    mx = point[1] * force[2] - point[2] * force[1]
    my = point[2] * force[0] - point[0] * force[2]
    mz = point[0] * force[1] - point[1] * force[0]
    for d in range(nv):
        if support[joint, d]:
            linear = axes[d, 0] * force[0] + axes[d, 1] * force[1] + axes[d, 2] * force[2]
            f[d] = linear + axes[d, 3] * mx + axes[d, 4] * my + axes[d, 5] * mz
    return f


@compiled
def world_impulses(p: Array, tangents: Array, normals: Array) -> Array:
    """Transform impulses (n, 3) from contact coordinates (s, t, n) to the world frame."""
    out = np.empty_like(p)
    for i in range(len(p)):
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        t0, t1, t2 = n1 * s2 - n2 * s1, n2 * s0 - n0 * s2, n0 * s1 - n1 * s0
        out[i, 0] = p[i, 0] * s0 + p[i, 1] * t0 + p[i, 2] * n0
        out[i, 1] = p[i, 0] * s1 + p[i, 1] * t1 + p[i, 2] * n1
        out[i, 2] = p[i, 0] * s2 + p[i, 1] * t2 + p[i, 2] * n2
    return out


@compiled
def along_contacts(vectors: Array, tangents: Array, normals: Array) -> Array:
    """Transform world vectors (n, 3) to contact coordinates, in the order normal, s, t (n, 3)."""
    out = np.empty_like(vectors)
    for i in range(len(vectors)):
        x, y, z = vectors[i, 0], vectors[i, 1], vectors[i, 2]
        s0, s1, s2 = tangents[i, 0], tangents[i, 1], tangents[i, 2]
        n0, n1, n2 = normals[i, 0], normals[i, 1], normals[i, 2]
        out[i, 0] = n0 * x + n1 * y + n2 * z
        out[i, 1] = s0 * x + s1 * y + s2 * z
        out[i, 2] = (n1 * s2 - n2 * s1) * x + (n2 * s0 - n0 * s2) * y + (n0 * s1 - n1 * s0) * z
    return out
