"""One step of bodies that an engine moves: what is asked of it, and where its answer leads."""

from collections.abc import Callable

import msgspec
import numpy as np

from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, DynamicsTerms, Record, State
from sim_harness.engines.engine import ForwardProblem, ForwardSolution, Rows
from sim_harness.world.jacobian import contact_jacobian


def forward_problem(
    robot: Robot,
    terms: DynamicsTerms,
    v: Array,
    contacts: ContactSet,
    force: Array,
    dt: float,
    bias: Callable[[], Array] | None = None,
    rows: Rows | None = None,
) -> ForwardProblem:
    """The step from velocity v under a generalised force [N, N·m] (nv); terms: where it begins; bias, rows: see there."""
    return ForwardProblem(
        M=terms.M,
        h=terms.h,
        v=v,
        J=contact_jacobian(terms.axes, robot.tree.support, contacts),
        force=force,
        mu=contacts.mu,
        gaps=contacts.gaps,
        dt=dt,
        bias=bias,
        rows=rows,
    )


def closed_chains(robot: Robot, q: Array) -> Rows | None:
    """Of a robot at q, None where it has none. Uses the robot's scratch."""
    if not robot.closures.keys:
        return None
    gaps, G = robot.closure_gaps(q)
    return Rows(G=G, g=gaps, stops=np.zeros(len(gaps), dtype=bool))


class Elsewhere(Record, frozen=True):
    """A robot at configurations beside q, a `System`; contacts: those of the step, pivots: as `moved_contacts` has them."""

    robot: Robot
    q: Array
    contacts_at_q: ContactSet
    pivots: tuple[Array, Array]

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        terms = self.robot.terms(self.robot.integrate(self.q, shift), v)
        return terms.M, terms.h

    def rows(self, shift: Array) -> Rows | None:
        return closed_chains(self.robot, self.robot.integrate(self.q, shift))

    def contacts(self, shift: Array) -> tuple[Array, Array]:
        robot, moved = self.robot, self.robot.integrate(self.q, shift)
        axes = robot.terms(moved, np.zeros(robot.nv)).axes
        return moved_contacts(robot, self.contacts_at_q, self.q, moved, axes, self.pivots)


def moved_contacts(
    robot: Robot, contacts: ContactSet, q: Array, moved: Array, axes: Array, pivots: tuple[Array, Array]
) -> tuple[Array, Array]:
    """J (3n, nv) and gaps [m] (n) of the contacts at q when they have gone with the bodies to where `axes` are.

    pivots: on the first and on the second body the centres about which the surface is round there, which go with the bodies
        while the contact stays where it is beside them: it rolls on; of flat faces and corners the points themselves (n, 3)
    """
    c, ground = contacts, np.zeros_like(contacts.others)
    ends = []
    rotations, origins = (places.copy() for places in robot.place(q))
    there = robot.place(moved)
    for joints, centres in zip((c.bodies, c.others), pivots, strict=True):
        local = np.einsum("nji,nj->ni", rotations[joints], centres - origins[joints])
        ends.append(np.einsum("nij,nj->ni", there[0][joints], local) + there[1][joints] + c.points - centres)
    J = contact_jacobian(axes, robot.tree.support, msgspec.structs.replace(c, others=ground, points=ends[0]))
    if c.others.any():
        second = msgspec.structs.replace(c, bodies=c.others, others=ground, points=ends[1])
        J -= contact_jacobian(axes, robot.tree.support, second)
    return J, c.gaps + ((ends[0] - ends[1]) * c.normals).sum(axis=1)


def with_system(problem: ForwardProblem, robot: Robot, q: Array, contacts: ContactSet) -> ForwardProblem:
    """For an engine that looks elsewhere, which uses the robot as its scratch: the problem with M and h of its own."""
    radii = dict(zip(robot.spheres.keys, robot.spheres.radii, strict=True))
    radius = np.array([radii[key.split("/")[0]] for key in contacts.keys]).reshape(-1, 1)
    pivots = contacts.points + radius * contacts.normals, contacts.points
    system = Elsewhere(robot=robot, q=q, contacts_at_q=contacts, pivots=pivots)
    return msgspec.structs.replace(problem, M=problem.M.copy(), h=problem.h.copy(), system=system)


def state_after(robot: Robot, q: Array, solution: ForwardSolution, dt: float) -> State:
    """Where the step from q ends: q ⊕ dt v⁺, or dt times the velocity with which the engine says that it drifts."""
    return State(q=robot.integrate(q, solution.course * dt), v=solution.v_plus)
