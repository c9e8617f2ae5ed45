"""Centre of mass and momentum of a robot on a floating base, from the rows of the base in M v̇ + h.

In the axes of the base, R to the world, the first six rows of M are those of momentum about the origin o of the base:

    P = R M₁ v,   L_o = R M₂ v,   M₁ = [m, −m [r]×, …]           r: from o to the centre of mass c
    c = o + R r,   ċ = P/m,   L_c = L_o − (c − o) × P,   c̈ = R (M₁ v̇ + h₁)/m + g
[Featherstone, Rigid Body Dynamics Algorithms, 9.5; Wensing and Orin 2016]
"""

from idyn.library.kernels import compiled, entry, stack_array
from idyn.library.records import Matrix, Vector, written
from idyn.types import Array


@compiled
def turned(base: Array, x: float, y: float, z: float, row: int) -> float:
    """Return one component of R (x, y, z). base: placement of the base, see `idyn.types.Kinematics` (12)"""
    return base[row] * x + base[3 + row] * y + base[6 + row] * z


@entry(Matrix, Vector, Vector, written(Vector))
def centroid(M: Array, v: Array, base: Array, out: Array) -> None:
    """Fill centre of mass [m], its velocity [m/s] and the angular momentum about it [kg·m²/s], in world axes (9).

    M (nv, nv), v (nv): with a floating base, whose placement is `base` (12)
    """
    m, r = M[0, 0], (M[1, 5] / M[0, 0], M[2, 3] / M[0, 0], M[0, 4] / M[0, 0])
    for i in range(3):
        out[i], out[3 + i], out[6 + i] = turned(base, r[0], r[1], r[2], i), 0.0, 0.0
    for j in range(len(v)):
        for i in range(3):
            out[3 + i] += turned(base, M[0, j], M[1, j], M[2, j], i) * v[j]
            out[6 + i] += turned(base, M[3, j], M[4, j], M[5, j], i) * v[j]
    for c in range(3):
        i, j = (c + 1) % 3, (c + 2) % 3
        out[6 + c] -= out[i] * out[3 + j] - out[j] * out[3 + i]
    for i in range(3):
        out[i] += base[9 + i]
        out[3 + i] /= m


@compiled
def fill_centre(terms: tuple[Array, ...], task: tuple[Array, ...], targets: tuple[Array, ...], out: tuple[Array, ...]) -> None:
    """Fill the equations A v̇ + drift = asked of a task on the centre of mass.

    terms: (M (nv, nv), h without applied forces (nv), v (nv), placement of the base (12), gravity [m/s²] (3), origin (3))
    task: (stiffness and damping (6), rows (r)); targets: (position, velocity, acceleration), each (3), empty if there is none
    out: (A (r, nv), asked (r), drift (r))
    """
    (M, h, v, base, gravity, origin), (gains, rows), (A, asked, drift) = terms, task, out
    position, speed, push = targets
    at, m = stack_array(9), M[0, 0]
    centroid(M, v, base, at)
    for n in range(len(rows)):
        i = rows[n]
        asked[n] = push[i] if len(push) > 0 else 0.0
        asked[n] += gains[i] * (position[i] - origin[i] - at[i]) if len(position) > 0 else 0.0
        asked[n] += gains[3 + i] * ((speed[i] if len(speed) > 0 else 0.0) - at[3 + i])
        drift[n] = turned(base, h[0], h[1], h[2], i) / m + gravity[i]
        for j in range(len(v)):
            A[n, j] = turned(base, M[0, j], M[1, j], M[2, j], i) / m
