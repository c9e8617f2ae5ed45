"""Stacks of tasks for tests, and an oracle that shares no code: one quadratic program in accelerations and forces."""

import numpy as np
import qpsolvers

from idyn.tasks import (
    FrameTask,
    TaskLimits,
    TaskStack,
    predict_tasks,
)

DT = 1e-3
LAWS = ["coulomb", "exact-cone"]
NO_JOINT_LIMITS = TaskLimits(joints=False, acceleration=1e9)


def solve(robot, state, contacts, tasks, law="coulomb", also=None, **stack):
    return predict_tasks(robot, state, contacts, TaskStack(tasks=tasks, **stack), law=law, dt=DT, **(also or {}))


def base_task(robot, state, shift=(0.0, 0.0, 0.0), **fields):
    pose = robot.frames.placement("root_joint", state.q)
    return FrameTask(frame="root_joint", position=pose.translation + shift, rotation=pose.rotation, **fields)


def random_tasks(robot, state, rng, size):
    """Tasks that limits of friction, torque and normal force often prevent, with the same equations for the oracle."""
    tasks, equations = [], []
    for frame in ("root_joint", "FL_thigh", "RR_calf"):
        asked, weight = size * rng.normal(size=6), 10.0 ** rng.uniform(-2, 2)
        tasks.append(FrameTask(frame=frame, acceleration=asked, stiffness=0.0, damping=0.0, weight=weight))
        J, drift = robot.frames.jacobian(frame, state.q), robot.frames.drift(frame, state.q, state.v)
        equations.append((np.sqrt(weight) * J, np.sqrt(weight) * (asked - drift)))
    return tasks, equations


def cost(equations, motion):
    return float(sum(((A @ motion - b) ** 2).sum() for A, b in equations))


def motion_of(answer, state):
    """v̇ that the law predicts."""
    return (answer.prediction.v_plus - state.v) / DT


def skew(x):
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def contact_jacobian(robot, q, contacts):
    """Rows x, y, z of the velocity of each contact point in the world (3n, nv)."""
    rows = []
    for key, point in zip(contacts.keys, contacts.points, strict=True):
        frame = key if key in robot.frames.names else key.rsplit("/", 1)[0]
        J = robot.frames.jacobian(frame, q)
        rows.append(J[:3] - skew(point - robot.frames.placement(frame, q).translation) @ J[3:])
    return np.array(rows).reshape(-1, robot.nv)


class Program:
    """Least squares over (v̇, f) for sticking contacts, with labelled limits.

    rows: (label, G, upper) with G x ≤ upper; held: (A, b) with A x = b
    """

    def __init__(self, robot, q, v, contacts, limits, relaxation, edges):
        self.robot, self.nv, self.n = robot, robot.nv, len(contacts)
        terms = robot.terms(q, v)
        self.M, self.h = terms.M.copy(), terms.h.copy()
        u, a, size = robot.tree.u, robot.tree.a, robot.nv + 3 * self.n
        J = contact_jacobian(robot, q, contacts)
        dynamics = np.zeros((len(u), size))
        dynamics[:, : self.nv], dynamics[:, self.nv :] = self.M[u], -J[:, u].T
        holding = np.zeros((3 * self.n, size))
        holding[:, : self.nv] = J
        self.held = np.vstack([dynamics, holding]), np.concatenate([-self.h[u], -J @ v / relaxation])
        self.rows = []
        for i, key in enumerate(contacts.keys):
            n, s = contacts.normals[i], contacts.tangents[i]
            t = np.cross(n, s)
            at = slice(self.nv + 3 * i, self.nv + 3 * i + 3)
            self._limit(f"normal force of contact {key}", at, -n, -limits.normal_force)
            corners = [np.cos(x) * s + np.sin(x) * t for x in 2 * np.pi * np.arange(edges) / edges]
            for one, other in zip(corners, corners[1:] + corners[:1], strict=True):
                reach = contacts.mu[i] * (1 - limits.friction_margin) * (1 + one @ other)
                self._limit(f"friction of contact {key}", at, one + other - reach * n, 0.0)
        torque = np.zeros((len(a), size))
        torque[:, : self.nv], torque[:, self.nv :] = self.M[a], -J[:, a].T
        for k, name in enumerate(robot.joint_names):
            most = limits.torque * robot.limits.tau_max[k]
            for sign in (1.0, -1.0):
                self.rows.append((f"torque limit of {name}", sign * torque[k], most - sign * self.h[a][k]))

    def _limit(self, label, at, row, upper):
        G = np.zeros(self.nv + 3 * self.n)
        G[at] = row
        self.rows.append((label, G, upper))

    def solve(self, equations, without=()):
        """Return the least Σ ‖A v̇ − b‖², with v̇. equations: pairs (A (r, nv), b (r)); without: labels of dropped rows"""
        A = np.zeros((sum(len(b) for _, b in equations), self.nv + 3 * self.n))
        A[:, : self.nv] = np.vstack([A for A, _ in equations])
        b = np.concatenate([b for _, b in equations])
        kept = [(G, upper) for label, G, upper in self.rows if label not in without and np.isfinite(upper)]
        G, upper = (np.array([each[k] for each in kept]) for k in range(2)) if kept else (None, None)
        H = A.T @ A + np.diag(np.concatenate([np.full(self.nv, 1e-9), np.full(3 * self.n, 1e-9)]))
        for accuracy in (1e-10, 1e-9, 1e-8):
            settings = {"eps_abs": accuracy, "eps_rel": accuracy}
            x = qpsolvers.solve_qp(H, -A.T @ b, G, upper, *self.held, solver="piqp", **settings)
            if x is not None:
                return float(((A @ x - b) ** 2).sum()), x[: self.nv]
        return None
