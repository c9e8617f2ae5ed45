"""One step of bodies that an engine moves: what is asked of it, and where its answer leads."""

from collections.abc import Callable

from idyn.robot import Robot
from idyn.types import Array, ContactSet, DynamicsTerms, State
from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.jacobian import contact_jacobian


def forward_problem(
    robot: Robot,
    terms: DynamicsTerms,
    v: Array,
    contacts: ContactSet,
    force: Array,
    dt: float,
    bias: Callable[[], Array] | None = None,
) -> ForwardProblem:
    """The step from velocity v under a generalised force [N, N·m] (nv); terms: at the step's beginning; bias: see there."""
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
    )


def state_after(robot: Robot, q: Array, solution: ForwardSolution, dt: float) -> State:
    """Where the step from q ends: q ⊕ dt v⁺, or dt times the velocity with which the engine says that it drifts."""
    drift = solution.v_plus if solution.drift is None else solution.drift
    return State(q=robot.integrate(q, drift * dt), v=solution.v_plus)
