"""Ticks of an idyn log as steps: measured state, torque and predicted contact forces of the reply.

v⁺ is the velocity that they cause. Laws on ground that yields apply to another velocity (`idyn.contact.ground`), so a log made
on the default ground opens and slips here by what the ground gives.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sim_harness.engines.engine import ForwardProblem
from sim_harness.judge.step import Step
from sim_harness.run.logs import Block, LogBlocks
from sim_harness.world.world import contact_jacobian
from transport.protocol.base_estimate import estimated
from transport.protocol.codec import vector
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.state_input import StateReader


def steps_of_log(path: Path, every: int) -> Iterator[Step]:
    """Yield the step of every n-th tick with predicted contact forces. Raises LogError."""
    count = 0
    with LogBlocks(path) as log:
        for block in log.blocks():
            for state, reply, _ in block.exchanges:
                if isinstance(reply, TorqueMessage) and reply.contact_force:
                    if count % every == 0:
                        yield _step(block, state, reply)
                    count += 1


def _step(block: Block, state: StateMessage, reply: TorqueMessage) -> Step:
    agreement = block.agreement
    robot, dt = agreement.robot, agreement.dt_ns * 1e-9
    measured = estimated(StateReader(agreement).read(state.q, state.vel).state, reply)
    forces = {force.frame: force for force in reply.contact_force if force.frame in robot.spheres.keys}
    contacts = block.controller.contacts(measured.q, list(forces))
    terms = robot.terms(measured.q, measured.v)
    J = contact_jacobian(terms.axes, robot.tree.support, contacts)
    p = dt * np.array([[forces[key].ft1, forces[key].ft2, forces[key].fn] for key in contacts.keys]).ravel()
    M, force = terms.M.copy(), np.zeros(robot.nv)
    force[robot.tree.a] = agreement.joints.torques_to_robot(vector(reply.tau, robot.na, "tau"))
    v, h = measured.v.copy(), terms.h.copy()
    b = ForwardProblem(M=M, h=h, v=v, J=J, force=force, mu=contacts.mu.copy(), gaps=contacts.gaps.copy(), dt=dt)
    return Step(name=f"seq {state.seq}", problem=b, p=p, v_plus=v + np.linalg.solve(M, J.T @ p + dt * (force - h)))
