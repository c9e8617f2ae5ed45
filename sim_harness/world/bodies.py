"""What a world of our engines moves: a robot on its ground or a scene, as engines need to know it."""

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
    """What differs between a robot and a scene; what is not said here is as for a robot on its own.

    robot: all bodies, also the scratch; terrain: the ground; start: the first state; dt: of a step without one [s]
    """

    robot: Robot
    terrain: Terrain
    start: State
    dt: float = 1e-3

    def checked(self, q: Array, v: Array | None) -> State:
        """A copy of (q, v), at rest without v. Raises InputError for what they cannot be at."""
        return checked_state(self.robot, q, v)

    def terms(self, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """M (nv, nv), h (nv) and the joint axes (nv, 6) as in `DynamicsTerms`, for the caller to keep."""
        terms = self.robot.terms(q, v)
        return terms.M.copy(), terms.h.copy(), terms.axes.copy()

    def touching(self, q: Array) -> Touching:
        raise NotImplementedError

    def pivots(self, q: Array, touching: Touching) -> tuple[Array, Array]:
        """Of contacts at q: see `moved_contacts` (n, 3)."""
        raise NotImplementedError

    def rows(self, q: Array, axes: Array) -> Rows | None:
        """Closures, stops and elastic elements, None where there are none."""
        if not self.robot.closures.keys:
            return None
        gaps, G = self.robot.closure_gaps(q)
        return Rows(G=G, g=gaps, stops=np.zeros(len(gaps), dtype=bool))

    def bias(self, q: Array, v: Array, contacts: ContactSet) -> Callable[[], Array] | None:
        """As `ForwardProblem` has it."""
        return None

    def force(self, axes: Array, state: State, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> Array:
        """Generalised force of the motors' torques, of pushes and of what else acts (nv); span: time and length of the step."""
        raise NotImplementedError

    def in_joints(self, problem: ForwardProblem, q: Array, integrates: bool) -> tuple[ForwardProblem, JointFriction | None]:
        """The step from q with the joints' springs in it, and their friction, which is to be put in. integrates: whether the
        engine takes springs and dampers into a scheme of its own"""
        return problem, None

    def moved(self, q: Array, shift: Array) -> Array:
        """Where a displacement along the axes at q leads (nq)."""
        return self.robot.integrate(q, shift)

    def along_axes_at(self, q: Array, moved: Array, J: Array) -> Array:
        """J (m, nv) at another configuration for velocities along the axes at q; changed in place."""
        return J

    def after(self, q: Array, v_plus: Array, drift: Array, dt: float) -> State:
        """Where a step from q ends that moves with the velocity `drift` and leaves v⁺, both along the axes at q."""
        return State(q=self.robot.integrate(q, drift * dt), v=v_plus)


class Elsewhere(Record, frozen=True):
    """Bodies at configurations beside q, a `System`; touching: the contacts of the step."""

    bodies: Bodies
    q: Array
    touching: Touching

    def terms(self, shift: Array, v: Array) -> tuple[Array, Array]:
        M, h, _ = self.bodies.terms(self.bodies.robot.integrate(self.q, shift), v)
        return M, h

    def rows(self, shift: Array) -> Rows | None:
        moved = self.bodies.moved(self.q, shift)
        rows = self.bodies.rows(moved, self._axes(moved))
        if rows is not None:
            self.bodies.along_axes_at(self.q, moved, rows.G)
        return rows

    def contacts(self, shift: Array) -> tuple[Array, Array]:
        bodies, moved = self.bodies, self.bodies.moved(self.q, shift)
        pivots = bodies.pivots(self.q, self.touching)
        J, gaps = moved_contacts(bodies.robot, self.touching.contacts, self.q, moved, self._axes(moved), pivots)
        return bodies.along_axes_at(self.q, moved, J), gaps

    def _axes(self, moved: Array) -> Array:
        return self.bodies.robot.terms(moved, np.zeros(self.bodies.robot.nv)).axes


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
    J = relative_jacobian(axes, robot.tree.support, c.bodies, ground, ends[0], c.tangents, c.normals)
    if c.others.any():
        J -= relative_jacobian(axes, robot.tree.support, c.others, ground, ends[1], c.tangents, c.normals)
    return J, c.gaps + ((ends[0] - ends[1]) * c.normals).sum(axis=1)


def forward_problem(
    robot: Robot, terms: tuple[Array, Array, Array], v: Array, contacts: ContactSet, force: Array, dt: float, **more: Any
) -> ForwardProblem:
    """The step from velocity v under a generalised force [N, N·m] (nv).

    terms: M, h and the axes where it begins; more: what else `ForwardProblem` has
    """
    M, h, axes = terms
    J = contact_jacobian(axes, robot.tree.support, contacts)
    return ForwardProblem(M=M, h=h, v=v, J=J, force=force, mu=contacts.mu, gaps=contacts.gaps, dt=dt, **more)
