"""Small problems of the Newton note, and how the iteration of the engine is followed step by step."""

import numpy as np

from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.newton import free_motion, velocity_after
from sim_harness.engines.newton_iteration import iterate
from sim_harness.engines.newton_rows import constraints, stack_of
from sim_harness.studies.newton_study import Scheme

G = 9.81
H = 1 / 120
"""The note's step [s]."""


def problem(M, J, mu, dt=H, **given):
    """A step of bodies at rest that touch, but for what is given."""
    M, J = np.asarray(M, dtype=float), np.asarray(J, dtype=float)
    nv, n = len(M), len(J) // 3
    fields = {"h": np.zeros(nv), "v": np.zeros(nv), "force": np.zeros(nv), "gaps": np.zeros(n)}
    fields |= {key: np.asarray(value, dtype=float) if key in fields else value for key, value in given.items()}
    return ForwardProblem(M=M, J=J, mu=np.full(n, mu, dtype=float), dt=dt, **fields)


def paper(**settings):
    """The engine as in the paper: no exact steps, ε = 0."""
    return Scheme(**({"regularisation": 0.0, "tolerance": 1e-9} | settings))


def followed(engine, step, start=None, limit=None):
    """The iteration from impulses `start` [N·s] with their velocity, or from p = 0 and v = 0.

    Its root, its last iterate (m), the constraints, and the velocity of the root (nv)
    """
    free, _ = free_motion(step.M, step.v, step.dt * (step.force - step.h))
    plan, J = stack_of(step, engine.recovery, False).plan()
    c = constraints(plan, J, free.L, free.z, engine.pass_settings.preconditioner)
    p = np.zeros(len(J)) if start is None else np.array(start, dtype=float)
    z = np.zeros(len(free.z)) if start is None else free.z + c.Y.T @ p
    root = iterate(c, engine.rules, p, z, limit or engine.pass_settings.limit)
    return root, p, c, velocity_after(c, free.L, root.p)


def particle(mu=0.5, v=(0.0, 0.0, 0.0), mass=1.0, **given):
    """On the plane z = 0."""
    return problem(mass * np.eye(3), np.eye(3), mu, v=v, h=[0, 0, mass * G], **given)


def cross(r):
    x, y, z = r
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0.0]])


def box(mass=10.0, half=0.5, height=0.2, mu=0.5, force=(0.0, 0.0, 0.0), **given):
    """On four corners, `half` from its centre in x and y and `height` below it; v is (velocity, spin) in world axes."""
    corners = [(x, y, -height) for x in (-half, half) for y in (-half, half)]
    J = np.vstack([np.hstack([np.eye(3), -cross(r)]) for r in corners])
    M = np.diag([mass] * 3 + [mass / 6] * 3)
    return problem(M, J, mu, h=[0, 0, mass * G, 0, 0, 0], force=[*force, 0, 0, 0], **given)


STACK = np.array([8.0, 64.0, 512.0, 4096.0, 32768.0])
"""Masses of boxes on one another, the heaviest on top [kg]."""
STACKED = np.array([367364.88, 367286.4, 366658.56, 361635.84, 321454.08])
"""Normal forces, from the bottom [N]."""


def stack():
    J = np.zeros((15, 5))
    J[2::3] = np.eye(5) - np.eye(5, k=-1)
    return problem(np.diag(STACK), J, 0.0, h=G * STACK)
