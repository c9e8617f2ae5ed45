"""The dynamics stage: Jacobians of contacts (rows S, T, N of each) and closures. `evaluate` runs the stages up to this one
from Python. The certificate does not use these Jacobians: it computes contact velocities independently."""

import numpy as np

from idyn.contact.ground import Ground
from idyn.errors import InputError
from idyn.library.kernels import compiled, entry
from idyn.library.records import Indices, Mask, Matrix, Vector, written
from idyn.model.robot import Robot
from idyn.solvers.linalg import copy_rows
from idyn.terms.drift import fill_drift
from idyn.terms.inputs import CONTACTS, Arrays, check, numbers, numbers_of, read_given
from idyn.terms.reduction import closure_rows
from idyn.terms.stages import Dynamics, ReducedProblem
from idyn.types import Array, ContactSet, Kinematics, State

Pair, Triple = tuple[Array, Array], tuple[Array, Array, Array]

NOTHING, NO_FORCES = np.zeros(0), np.zeros((0, 3))  # arguments for predictions without an applied force and without a last tick


@compiled
def build_dynamics(d: Dynamics) -> None:
    """Fill J, drift, G and rate of a `Dynamics` whose `Given` is filled."""
    g = d.given
    if len(g.rows) > 0:
        copy_rows(g.rows, d.J)
    else:
        fill_jacobian(g.axes, g.model.support, (g.bodies, g.others), (g.points, g.normals, g.tangents), d.J)
    closure_rows(d)
    fill_drift(d)


@entry(Matrix, Mask, (Indices, Indices), (Matrix, Matrix, Matrix), written(Matrix))
def fill_jacobian(
    axes: Array, support: Array, bodies: tuple[Array, Array], frames: tuple[Array, Array, Array], J: Array
) -> None:
    """Fill the contact Jacobian J (3n, nv): rows s, t = n × s and n of each contact.

    Column j is the velocity v_O + ω × x of the contact point x per unit velocity of degree of freedom j, first body minus
    second; zero if the degree of freedom moves both bodies or neither.

    axes (nv, 6): see `DynamicsTerms`; support (njoints, nv): see `idyn.model.tree.Tree`
    bodies: (joints of the first bodies (n), joints of the second bodies (n))
    frames: (points x, normals n, tangents s), each (n, 3)
    """
    (firsts, seconds), (points, normals, tangents) = bodies, frames
    for i in range(len(firsts)):
        s, n, x, body, other = tangents[i], normals[i], points[i], support[firsts[i]], support[seconds[i]]
        t0, t1, t2 = n[1] * s[2] - n[2] * s[1], n[2] * s[0] - n[0] * s[2], n[0] * s[1] - n[1] * s[0]
        for j in range(len(axes)):
            if body[j] == other[j]:
                J[3 * i, j] = J[3 * i + 1, j] = J[3 * i + 2, j] = 0.0
                continue
            e, sign = axes[j], 1.0 if body[j] else -1.0
            v0 = sign * (e[0] + e[4] * x[2] - e[5] * x[1])
            v1 = sign * (e[1] + e[5] * x[0] - e[3] * x[2])
            v2 = sign * (e[2] + e[3] * x[1] - e[4] * x[0])
            J[3 * i, j] = s[0] * v0 + s[1] * v1 + s[2] * v2
            J[3 * i + 1, j] = t0 * v0 + t1 * v1 + t2 * v2
            J[3 * i + 2, j] = n[0] * v0 + n[1] * v1 + n[2] * v2


def contact_jacobian(robot: Robot, kinematics: Kinematics, contacts: ContactSet) -> Array:
    """Return the contact Jacobian, rows S, T, N of each contact (3n, nv)."""
    J, c = np.empty((3 * len(contacts), robot.nv)), contacts
    fill_jacobian(kinematics.axes, robot.tree.support, (c.bodies, c.others), (c.points, c.normals, c.tangents), J)
    return J


def contact_arrays(contacts: ContactSet) -> Arrays:
    """Return the arrays of a contact set in the order of `CONTACTS`."""
    c = contacts
    return c.bodies, c.others, c.points, c.normals, c.tangents, c.mu, c.gaps, c.radii


def evaluate(
    robot: Robot,
    state: State | Kinematics,
    contacts: ContactSet,
    *,
    dt: float,
    ground: Ground,
    applied: Array | None = None,
    last: Array | None = None,
    into: ReducedProblem | None = None,
) -> ReducedProblem:
    """Run the stages kinematics, validate and dynamics for a period `dt` [s]. Return a problem whose `dynamics` is filled;
    `reduce_problem` fills the rest.

    applied: generalised force in addition to gravity, contacts and torques [N, N·m] (nv)
    last: contact forces of the last tick in the world, p⁻/dt of the contact compliance model (`idyn.contact.ground`) [N]
        (n, 3); None: zero
    into: problem of this robot with the same number of contacts, to be overwritten; None: a new one is created

    Raises InputError, naming the field, for a malformed state or contact set.
    """
    problem = ReducedProblem(robot, len(contacts.keys)) if into is None else into
    problem.dynamics.given.set_ground(ground, dt)
    problem.dynamics.given.set_memory(ground, dt, last is not None)
    if not fill_dynamics(robot, problem.dynamics, state, contacts, applied, last):
        state, contacts, applied, last = checked(robot, state, contacts, applied, last)
        if not fill_dynamics(robot, problem.dynamics, state, contacts, applied, last):
            raise AssertionError("`read_given` refused data that `check` accepts")
    return problem


def checked(
    robot: Robot, state: State | Kinematics, contacts: ContactSet, applied: Array | None, last: Array | None
) -> tuple[State, ContactSet, Array | None, Array | None]:
    """Return the data as contiguous arrays of float64 in native byte order, see `idyn.terms.inputs.numbers`. Raises InputError,
    naming the field, for malformed data."""
    plain, contacts = numbers_of(State(q=state.q, v=state.v)), numbers_of(contacts, "contacts.")
    applied = None if applied is None else numbers("applied", applied)
    last = None if last is None else numbers("last", last)
    check(robot, plain, contacts, applied)
    if last is not None and last.shape != (len(contacts.keys), 3):
        raise InputError("last", f"expected shape {(len(contacts.keys), 3)}, got {last.shape}")
    return plain, contacts, applied, last


def fill_dynamics(
    robot: Robot, dynamics: Dynamics, state: State | Kinematics, contacts: ContactSet, applied: Array | None, last: Array | None
) -> bool:
    """Fill the kinematics and dynamics; return whether the data are valid. Other arguments: see `evaluate`"""
    motion = state.q, state.v, NOTHING if applied is None else applied
    try:
        robot.kinematics(state)
        return bool(_read_dynamics(dynamics, motion, contact_arrays(contacts), (NO_FORCES if last is None else last,)))
    except (AttributeError, TypeError, ValueError):  # wrong types for Pinocchio or compiled code
        return False


@entry(Dynamics, (Vector, Vector, Vector), CONTACTS, (Matrix,))
def _read_dynamics(d: Dynamics, state: Arrays, contacts: Arrays, before: Arrays) -> bool:
    """Run the stages validate and dynamics; return whether the data are valid."""
    d.given.midway, d.given.contact_drift = False, d.given.drift
    if not read_given(d.given, state, contacts, before[0]):
        return False
    build_dynamics(d)
    return True
