"""One step of bodies that an engine moves: what is asked of it, and where its answer leads."""

from collections.abc import Callable

import msgspec
import numpy as np

from idyn.robot import Robot
from idyn.types import Array, ContactSet, DynamicsTerms, Record, State
from sim_harness.engines.engine import ForwardProblem, ForwardSolution, Rows
from sim_harness.jacobian import contact_jacobian


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
    """A robot at configurations beside q, a `System`."""

    robot: Robot
    q: Array

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        terms = self.robot.terms(self.robot.integrate(self.q, shift), v)
        return terms.M, terms.h


def with_system(problem: ForwardProblem, robot: Robot, q: Array) -> ForwardProblem:
    """For an engine with a scheme of its own, which uses the robot as its scratch: the problem with M and h of its own."""
    return msgspec.structs.replace(problem, M=problem.M.copy(), h=problem.h.copy(), system=Elsewhere(robot=robot, q=q))


def state_after(robot: Robot, q: Array, solution: ForwardSolution, dt: float) -> State:
    """Where the step from q ends: q ⊕ dt v⁺, or dt times the velocity with which the engine says that it drifts."""
    return State(q=robot.integrate(q, solution.course * dt), v=solution.v_plus)
