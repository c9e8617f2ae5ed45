"""MuJoCo's soft contact with the joint motion prescribed: on a described model, the forces are those of MuJoCo's next step.

    min_x ½ xᵀ M_uu x + gᵀ x + Σ s_i(J_u x + c),     f = −∂s(J a − a_ref),     a = (v⁺ − v)/dt + s,   s = (ω × v_lin, 0)

MuJoCo minimises ½ (a − a⁰)ᵀ M (a − a⁰) + s(J a − a_ref) over all accelerations a. With the joints' part given, the rows without
motors are the stationarity of a problem in the others alone; those with motors give the torques. So nothing is approximated:
under these torques a is MuJoCo's own, unique minimiser. In impulses, p = dt f, the program is that of `idyn.laws.compliant`,
with R of `idyn.laws.mujoco.rows`. Elliptic cones: R_t = R_n/impratio. It is strongly convex: every demand is feasible and has
one solution, so that projection and selection are not needed. Dry friction, damping and limits of joints are functions of the
demand; they change the torques only.

The period of the prediction must be MuJoCo's time step, contact points are MuJoCo's (halfway between the surfaces), and the
`Ground` of the options does not matter. It is a law for simulators and their twins: the ground of real robots is not known to
10 µm, which changes forces by up to 5 % of the weight where feet touch down.

Friction against turning (condim 4, 6) adds rows and moments of contacts, see `idyn.laws.mujoco.rows`.

Modelling errors: integrators Euler, implicitfast and implicit only. Closed chains and friction of joints without motors are
not supported.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np

from idyn.contact.ground import RIGID
from idyn.contact.soft import SoftConstraints
from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.laws.compliant import CONVERGED, SIX, THREE, minimise, start
from idyn.laws.law import Attempt, Face, LawData, Rung, Start, polygon
from idyn.laws.mujoco.rows import contact_rows, fill_contacts, free_joint_terms, joint_terms, take_moments
from idyn.solvers.linalg import backward, forward, forward_rows
from idyn.status import SOLVED, Conditions
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

NotNegative = Annotated[float, msgspec.Meta(ge=0)]

Solref = tuple[float, float]
Solimp = tuple[float, float, float, float, float]

SOLREF: Solref = (0.02, 1.0)
SOLIMP: Solimp = (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's defaults."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of named parameters, which are MuJoCo's."""


class SoftContact(Parameters, frozen=True):
    """Contact of a body.

    solref: (time constant [s], damping ratio), or (−stiffness, −damping) per unit of inverse inertia
    solreffriction: solref of friction, elliptic cones only; (0, 0): that of the normal force
    solimp: impedance: (smallest, largest, width [m], midpoint, power)
    margin: gap below which there is a force [m]
    condim: 1: without friction; 3: with friction; 4: also against turning about the normal; 6: also about the tangents
    spin, roll: friction against turning about the normal and about the tangents (rolling): largest moment per normal force
        [m]; the limits of sliding and turning form one cone
    weight: body_invweight0, translation [1/kg]; 0: computed from the robot at its neutral configuration
    """

    solref: Solref = SOLREF
    solreffriction: Solref = (0.0, 0.0)
    solimp: Solimp = SOLIMP
    margin: float = 0.0
    condim: Literal[1, 3, 4, 6] = 3
    spin: NotNegative = 0.005
    roll: NotNegative = 0.0001
    weight: NotNegative = 0.0


class SoftJoint(Parameters, frozen=True):
    """Friction and limits of a joint.

    damping: viscous friction [N·m·s/rad]; frictionloss: dry friction [N·m]
    solreffriction, solimpfriction: solref and solimp of the dry friction
    range: lowest and highest position [rad], if it is limited
    margin: distance from the range below which there is a force [rad]
    solreflimit, solimplimit: solref and solimp of the range
    weight: dof_invweight0 [1/(kg·m²)]; 0: computed from the robot at its neutral configuration
    """

    damping: NotNegative = 0.0
    frictionloss: NotNegative = 0.0
    solreffriction: Solref = SOLREF
    solimpfriction: Solimp = SOLIMP
    range: tuple[float, float] | None = None
    margin: float = 0.0
    solreflimit: Solref = SOLREF
    solimplimit: Solimp = SOLIMP
    weight: NotNegative = 0.0


class Soft(msgspec.Struct, frozen=True):
    """Parameters of the law.

    contact: of all bodies that `contacts` does not name; contacts: by frame, see `Robot.joint_of_frame`
    joint: of all actuated joints that `joints` does not name; joints: by joint
    implicit: whether the integrator is `implicit`
    """

    contact: SoftContact = SoftContact()
    contacts: dict[str, SoftContact] = {}
    joint: SoftJoint = SoftJoint()
    joints: dict[str, SoftJoint] = {}
    pyramidal: bool = False
    impratio: float = 1.0
    implicit: bool = False


def check(soft: Soft) -> None:
    """Raise ConfigError for values that MuJoCo does not accept."""
    if not 0.0 < soft.impratio < np.inf:
        raise ConfigError("law.impratio", f"expected a finite number > 0, got {soft.impratio}")
    contacts = {"law.contact": soft.contact} | {f"law.contacts.{name}": each for name, each in soft.contacts.items()}
    for path, contact in contacts.items():
        _check_solref(f"{path}.solref", contact.solref)
        if contact.solreffriction != (0.0, 0.0):
            _check_solref(f"{path}.solreffriction", contact.solreffriction)
        _check_solimp(f"{path}.solimp", contact.solimp)
        for name, value in (("spin", contact.spin), ("roll", contact.roll)):
            if not 0.0 <= value < np.inf:
                raise ConfigError(f"{path}.{name}", f"expected a finite number ≥ 0, got {value}")
    joints = {"law.joint": soft.joint} | {f"law.joints.{name}": each for name, each in soft.joints.items()}
    for path, joint in joints.items():
        _check_solref(f"{path}.solreffriction", joint.solreffriction)
        _check_solref(f"{path}.solreflimit", joint.solreflimit)
        _check_solimp(f"{path}.solimpfriction", joint.solimpfriction)
        _check_solimp(f"{path}.solimplimit", joint.solimplimit)
        if joint.range is not None and not joint.range[0] < joint.range[1]:
            raise ConfigError(f"{path}.range", f"expected two increasing numbers, got {joint.range}")


def _check_solref(path: str, solref: Solref) -> None:
    first, second = solref
    if not (np.isfinite(solref).all() and ((first > 0.0 and second > 0.0) or (first < 0.0 and second <= 0.0))):
        raise ConfigError(
            path, f"expected a time constant and a damping ratio > 0, or a −stiffness < 0 and a −damping ≤ 0, got {solref}"
        )


def _check_solimp(path: str, solimp: Solimp) -> None:
    if not (np.isfinite(solimp).all() and min(solimp[:4]) >= 0.0 and solimp[4] >= 1.0):
        raise ConfigError(path, f"expected four finite numbers ≥ 0 and a power ≥ 1, got {solimp}")


MOST_ROUNDS = 50
"""Maximum number of rounds for the integrator `implicit`. Usual: 5 to 8."""


class Mujoco:
    """MuJoCo's soft contact. soft: its parameters"""

    name = "mujoco"
    conditions = Conditions.SOFT
    unlimited_friction = False
    max_pivots = 0
    directions = polygon(4)
    basis_width = 0
    basis_type: np.dtype = np.dtype(np.bool_)
    material = RIGID._replace(drift=False)

    rungs = (Rung("newton", Start.VELOCITY, 0),)

    def __init__(self, soft: Soft) -> None:
        """Raises ConfigError for parameters that MuJoCo does not accept."""
        check(soft)
        self.soft, self.kernel = soft, mujoco_kernel

    def sticking(self, mu: Array) -> Array:
        return np.zeros(len(mu))


@compiled
def mujoco_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Return the impulses at the minimum, the only solution, and fill `problem.load`; with friction against turning also
    `problem.moments`."""
    g, soft, J = problem.dynamics.given, law.soft, contact_rows(problem.dynamics, law.soft)
    laws, aim, motion = np.empty((len(g.mu), 7)), np.zeros(len(J)), np.zeros(len(g.v))
    fill_contacts(g, soft, J, laws, aim)
    Y, x = start(problem)
    if soft.turns:
        Y = _projected(problem, J)
    # motion = dt a for x = 0:  v_free − v + dt (s + e)
    free_joint_terms(g, motion)
    for j in range(len(motion)):
        motion[j] += problem.v_free[j] - g.v[j]
    before = 0
    if soft.implicit:
        before = _add_implicit_terms(problem, soft, (laws, Y, J, aim), motion, x)
    elif soft.resists:
        joint_terms(problem, soft, motion.copy(), motion)
    b = J @ motion - aim
    p, status, steps = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
    if soft.turns:
        p = take_moments(problem, soft, J, p)
    return Attempt(p, Face(basis, law.directions, g.mu, False, law.directions[:0]), g.mu[:0], status, before + steps)


@compiled
def _add_implicit_terms(
    problem: ReducedProblem, soft: SoftConstraints, contacts: tuple[Array, Array, Array, Array], motion: Array, x: Array
) -> int:
    """Fill `load` and add dt e to `motion` for the integrator `implicit`, by fixed-point iteration: e and the load follow from
    the acceleration a' of the step, and this from the convex problem with them. A round gains the factor h ‖M⁻¹ ∂h/∂v‖. Return
    the number of Newton steps.

    contacts: (laws, Y, J, dt a_ref); motion: dt a for x = 0 without e (nv), becomes that with e and the effect of the load
    x: start, becomes the minimum (nu)
    """
    (laws, Y, J, aim), g, u = contacts, problem.dynamics.given, problem.dynamics.given.model.u
    free, change, before, y, steps = motion.copy(), motion.copy(), np.inf, np.empty(len(u)), 0
    for _ in range(MOST_ROUNDS):
        # dt a = v_free − v + dt (s + e) + dt M_uu⁻¹ load_u
        motion[:] = 0.0
        joint_terms(problem, soft, change, motion)
        for i in range(len(u)):
            y[i] = g.dt * problem.load[u[i]]
        forward(problem.L, y)
        backward(problem.L, y)
        shifted = free.copy()
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        motion += shifted
        b = J @ motion - aim
        _, status, more = minimise(laws, Y, b, x, SIX) if soft.turns else minimise(laws, Y, b, x, THREE)
        steps += more
        # dt a' = the same without e, plus L⁻ᵀ x
        y[:] = x
        backward(problem.L, y)
        moved, largest = 0.0, 0.0
        for i in range(len(u)):
            shifted[u[i]] += y[i]
        for j in range(len(change)):
            moved, largest = max(moved, abs(shifted[j] - change[j])), max(largest, abs(shifted[j]))
        change[:] = shifted
        if moved <= CONVERGED * largest or not moved < before or status != SOLVED:
            break
        before = moved
    return steps


@compiled
def _projected(problem: ReducedProblem, J: Array) -> Array:
    """Return J_u L⁻ᵀ (rows, nu)."""
    u = problem.dynamics.given.model.u
    Y = np.empty((len(J), len(u)))
    for row in range(len(J)):
        for k in range(len(u)):
            Y[row, k] = J[row, u[k]]
    forward_rows(problem.L, Y)
    return Y
