"""Small systems for the tests of `first-order`: their matrices are written down, so that every answer is known."""

import numpy as np

from sim_harness.engines.engine import ForwardProblem, Rows

G = 9.81


def step_of(M, force, v, dt, J=None, gaps=(), mu=0.0, **yielding):
    """The step of a system of constant M under a force, J with three rows for each contact.

    yielding: rows; stiffness and dissipation of all contacts or of each
    """
    nv, n = len(M), len(gaps)
    return ForwardProblem(
        M=np.asarray(M, float),
        h=np.zeros(nv),
        v=np.asarray(v, float),
        J=np.zeros((0, nv)) if J is None else np.asarray(J, float),
        force=np.asarray(force, float),
        mu=np.zeros(n) + mu if n else np.zeros(0),
        gaps=np.asarray(gaps, float),
        dt=dt,
        **{key: value if key == "rows" else np.zeros(n) + value for key, value in yielding.items()},
    )


def ties(G, g, K, B):
    """Rows that pull and push with springs K [N/m] and dampers B [N·s/m]."""
    return springs(G, g, K, B, stops=False)


def stops(G, g, K, B):
    return springs(G, g, K, B, stops=True)


def springs(G, g, K, B, stops):
    g = np.asarray(g, float)
    K, B = np.zeros(len(g)) + K, np.zeros(len(g)) + B
    return Rows(G=np.asarray(G, float), g=g, stops=np.full(len(g), stops), compliance=1 / K, dissipation=B / K)


def along_normals(N):
    """J of contacts without tangents: three rows for each of N."""
    N = np.asarray(N, float)
    J = np.zeros((3 * len(N), N.shape[1]))
    J[2::3] = N
    return J


def random_spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


def rod(angle=np.pi / 3, m=1.0, length=1.0):
    """A thin rod that leans, its lower end on the ground: M, J (s, t, n) in the plane (x, z, turn)."""
    x, z = -0.5 * length * np.cos(angle), -0.5 * length * np.sin(angle)
    J = np.array([[1.0, 0.0, -z], [0.0, 0.0, 0.0], [0.0, 1.0, x]])
    return np.diag([m, m, m * length * length / 12]), J


def compliance_and_share(K, B, dt):
    """R [1/kg] and E [1] of springs K [N/m] and dampers B [N·s/m], one for each row; either may be 0, K may be inf.

    R is what is called CFM as an impulse, E the ERP. K = 0: E = 0, a row that is all viscous; K = ∞: R = 0, E = 1.
    """
    K, B = np.asarray(K, float), np.asarray(B, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        R = 1.0 / (dt * dt * K + dt * B)
        share = np.where(np.isinf(K), 1.0, dt * K / (dt * K + B))
    return R, share


def stiffness_and_damping(R, share, dt):
    """K [N/m] and B [N·s/m] of rows with R [1/kg] > 0 and E."""
    R, share = np.asarray(R, float), np.asarray(share, float)
    return share / (dt * dt * R), (1.0 - share) / (dt * R)


def hertz(modulus, radius, depth):
    """F [N] and dF/dd [N/m] of a sphere on a plane at a depth d: F = E* √(r d³)  [Drumwright (121)], as printed: Hertz has 4/3.

    A row's K is dF/dd, and its g the place where a spring of K has the force F, −F/K: not the d^{3/2} of (123), whose
    gradient has no unit of a Jacobian and vanishes where the sphere first touches.
    """
    root = np.sqrt(radius * max(depth, 0.0))
    return modulus * root * max(depth, 0.0), 1.5 * modulus * root
