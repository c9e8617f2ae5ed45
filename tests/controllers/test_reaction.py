"""Response to torques while contacts hold, compared with the equations of the whole robot."""

import numpy as np
from fast import every
from rigs import controller

from controllers.monitor.reality import react
from idyn.contact.ground import Ground
from idyn.terms.dynamics import evaluate
from idyn.types import State


@every("name", ["quadruped", "solo12"])
@every("held", [[], [0], [0, 3], [0, 1, 2, 3]])
def test_motion_and_forces_match_the_full_system(name, held):
    """[M −Jᵀ; J 0] [a; f] = [Pᵀ τ; 0] with the rows of the feet that push."""
    c, rng = controller(name), np.random.default_rng(len(held))
    robot, push = c.robot, np.zeros(12)
    q = robot.integrate(c.stance, 0.05 * rng.normal(size=robot.nv))
    contacts = c.contacts(q, robot.contact_names)
    d = evaluate(robot, State(q=q, v=0.1 * rng.normal(size=robot.nv)), contacts, dt=1e-3, ground=Ground.rigid()).dynamics
    push[[3 * i + 2 for i in held]] = 0.01
    tau, a, borne = rng.normal(size=robot.na), np.zeros(robot.nv), np.zeros(3)
    react(d.fields, push, tau, a, borne)

    J, P = d.J[[3 * i + row for i in held for row in range(3)]], np.zeros((robot.na, robot.nv))
    P[range(robot.na), robot.tree.a] = 1.0
    system = np.block([[d.given.M, -J.T], [J, np.zeros((len(J), len(J)))]])
    solution = np.linalg.lstsq(system, np.r_[P.T @ tau, np.zeros(len(J))], rcond=None)[0]
    frames = [np.array([s, np.cross(n, s), n]) for s, n in zip(contacts.tangents, contacts.normals, strict=True)]
    forces = solution[robot.nv :].reshape(-1, 3)
    sums = sum((f @ frames[i] for i, f in zip(held, forces, strict=True)), np.zeros(3))
    np.testing.assert_allclose(a, solution[: robot.nv], rtol=1e-6, atol=1e-6 * np.abs(a).max())
    np.testing.assert_allclose(borne, sums, atol=1e-6 * max(1.0, np.abs(sums).max()))
