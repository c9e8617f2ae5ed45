"""Bodies of an engine world: common interface of a robot on its ground and of a scene."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from idyn.contact.terrain import Terrain
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet, Record, State
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.world.jacobian import contact_jacobian, relative_jacobian
from sim_harness.world.joints import JointFriction
from sim_harness.world.world import Push, Touching, checked_state


class Bodies:
    """Base class with the parts that differ between a robot and a scene. Default methods are those of a robot.

    robot: model of all bodies; it owns work arrays
    terrain: the ground
    start: first state
    dt: default step [s]
    """

    robot: Robot
    terrain: Terrain
    start: State
    dt: float = 1e-3

    def checked(self, q: Array, v: Array | None) -> State:
        """Return a copy of (q, v), v = 0 without v. Raises InputError for an invalid state."""
        return checked_state(self.robot, q, v)

    def terms(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return copies of M (nv, nv), h (nv) and the joint axes (nv, 6) as in `DynamicsTerms`."""
        terms = self.robot.terms(q, v)
        return terms.M.copy(), terms.h.copy(), terms.axes.copy()

    def touching(self, q: Array) -> Touching:
        """Return the contacts at q."""
        raise NotImplementedError

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        """Return the centres of curvature of both surfaces at the contacts [m] (n, 3), see `moved_contacts`."""
        raise NotImplementedError

    def rows(self, q: Array, axes: Array) -> Rows | None:
        """Return the rows of closures, stops and elastic elements at q, None without any."""
        if not self.robot.closures.keys:
            return None
        gaps, G = self.robot.closure_gaps(q)
        return Rows(G=G, g=gaps, stops=np.zeros(len(gaps), dtype=bool))

    def bias(self, q: Array, v: Array, contacts: ContactSet) -> Callable[[], Array] | None:
        """Return the function `bias` of `ForwardProblem`, None when it is not available."""
        return None

    def force(self, axes: Array, state: State, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> Array:
        """Return the generalised force of motor torques, pushes and other external forces [N, N·m] (nv).

        span: time and length of the step [s]
        """
        raise NotImplementedError

    def with_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        """Return the forward problem with implicit joint springs, and the joint friction, which it does not contain.

        q: configuration at the beginning of the step (nq)
        integrates: whether the engine is an `Integrator`, which handles springs and dampers itself
        """
        return problem, None

    def moved(self, q: Array, shift: Array) -> Array:
        """Return the configuration after a displacement along the axes at q (nq)."""
        return self.robot.integrate(q, shift)

    def along_axes_at(self, q: Array, moved: Array, J: Array) -> Array:
        """Return J, changed in place so that it multiplies velocities along the axes at q.

        J: Jacobian at the configuration `moved`, for velocities along the axes there (m, nv)
        """
        return J

    def after(self, q: Array, v_plus: Array, drift: Array, dt: float) -> State:
        """Return the state after a step of dt [s] from the configuration q.

        v_plus: velocity after the step, along the axes at q (nv)
        drift: velocity with which the configuration is integrated, along the axes at q (nv)
        """
        return State(q=self.robot.integrate(q, drift * dt), v=v_plus)


class MovedBodies(Record, frozen=True):
    """Implementation of `System`: evaluates bodies at configurations near q.

    q: configuration at the beginning of the step (nq)
    touching: contacts of the step
    """

    bodies: Bodies
    q: Array
    touching: Touching

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        """Return M (nv, nv) and h (nv) at q ⊕ shift."""
        M, h, _ = self.bodies.terms(self.bodies.robot.integrate(self.q, shift), v)
        return M, h

    def rows(self, shift: Array) -> Rows | None:
        """Return the constraint rows at q ⊕ shift."""
        moved = self.bodies.moved(self.q, shift)
        rows = self.bodies.rows(moved, self._axes(moved))
        if rows is not None:
            self.bodies.along_axes_at(self.q, moved, rows.G)
        return rows

    def contacts(self, shift: Array) -> tuple[Array, Array]:
        """Return J (3n, nv) and gaps [m] (n) of the step's contacts at q ⊕ shift."""
        bodies, moved = self.bodies, self.bodies.moved(self.q, shift)
        pivots = bodies.pivots(self.q, self.touching)
        J, gaps = moved_contacts(bodies.robot, self.touching.contacts, self.q, moved, self._axes(moved), pivots)
        return bodies.along_axes_at(self.q, moved, J), gaps

    def _axes(self, moved: Array) -> Array:
        return self.bodies.robot.terms(moved, np.zeros(self.bodies.robot.nv)).axes


def moved_contacts(
    robot: Robot, contacts: ContactSet, q: Array, moved: Array, axes: Array, pivots: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return J (3n, nv) and gaps [m] (n) of the contacts at q after the bodies have moved to the configuration `moved`.

    axes: joint axes at `moved` (nv, 6)
    pivots: centres of curvature of the surfaces of the first and second body at each contact [m] (n, 3). They move with the
        bodies, and the contact point keeps its offset from them, so round bodies roll. For flat faces and corners they are the
        contact points themselves
    """
    c, ground = contacts, np.zeros_like(contacts.others)
    ends = []
    rotations, origins = (places.copy() for places in robot.place(q))
    there = robot.place(moved)
    for joints, centres in zip((c.bodies, c.others), pivots, strict=True):
        local = np.einsum("nji,nj->ni", rotations[joints], centres - origins[joints])
        ends.append(np.einsum("nij,nj->ni", there[0][joints], local) + there[1][joints] + c.points - centres)
    J = relative_jacobian(axes, robot.tree.support, c.bodies, ground, ends[0], c.tangents, c.normals)
    if c.others.any():
        J -= relative_jacobian(axes, robot.tree.support, c.others, ground, ends[1], c.tangents, c.normals)
    return J, c.gaps + ((ends[0] - ends[1]) * c.normals).sum(axis=1)


def forward_problem(
    robot: Robot, terms: tuple[Array, Array, Array], v: Array, contacts: ContactSet, force: Array, dt: float, **more: Any
) -> ForwardProblem:
    """Return the forward problem of a step.

    terms: M, h and the axes at the beginning of the step
    v: velocity at the beginning of the step (nv)
    force: generalised force of motors and pushes [N, N·m] (nv)
    more: further fields of `ForwardProblem`
    """
    M, h, axes = terms
    J = contact_jacobian(axes, robot.tree.support, contacts)
    return ForwardProblem(M=M, h=h, v=v, J=J, force=force, mu=contacts.mu, gaps=contacts.gaps, dt=dt, **more)
