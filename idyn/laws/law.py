"""Interface of contact laws: `Law`, its rungs (solver attempts) and kernels, and the face of equivalent solutions."""

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from idyn.certificate.certify import Conditions
from idyn.contact.ground import RIGID, Material
from idyn.contact.soft import Soft, SoftConstraints
from idyn.errors import ConfigError
from idyn.library.kernels import compiled, entry, interpreted, stack_array
from idyn.library.records import ArrayRecord, Matrix, Vector, written
from idyn.solvers.linalg import fill
from idyn.status import NOT_CERTIFIED
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array

Kernel = Callable[..., Any]

FACE_ZERO = 1e-9  # slack velocities that count as zero on the face, whose points violate complementarity by no more [m/s]
MOST_EDGES = 64  # most edges of a friction polygon, then within 0.13 % of the circle; time and memory grow with the edges
SLIPS = 1e-7  # tangential speed û above which a contact slides [m/s]

NOTHING, NO_FRICTION = np.zeros(0), np.zeros((0, 2))


class Face(NamedTuple):
    """Set of impulses that solve the law equally well, all with the same J_uᵀ p (MATHEMATICS §3.5)."""

    # for each contact (n, 2 + k, bool): it may carry a normal impulse, w_N = 0; it slides, λ > 0, so the sum of its friction
    # impulses is μ p_N; from 2 on: friction direction j may be loaded, w_F = 0
    flags: Array
    directions: Array  # corners of the friction polygon in (s, t) coordinates, counter-clockwise (k, 2)
    mu: Array  # friction coefficients (n)
    unlimited: bool  # whether every μ > 0 counts as ∞; tangential impulses are then free
    # for laws with round cones, whose flags are (n, 3): unit direction (s, t) of the friction of each contact, or zero (n, 2);
    # for laws with polygons: empty (0, 2)
    friction: Array = NO_FRICTION


class Attempt(NamedTuple):
    """Result of one rung, a kernel or a Python solver."""

    p: Array  # contact impulses in rows S, T, N [N·s] (3n)
    face: Face  # equivalent impulses; its flags have no columns if p is the only solution
    status: int  # value of a `Status`
    iterations: int  # pivots or iterations of the solver
    basis: Array  # for the next tick (n, ·); a kernel returns the array that it got and has overwritten
    multipliers: Array = NOTHING  # of the non-penetration rows, for laws that are optimisation programs (n); others: empty
    epsilon: float = 0.0  # ε of the term ½ε‖p‖² in such a program [1/kg]


def single(n: int) -> Face:
    """Return the face of the only solution for n contacts."""
    return Face(np.zeros((n, 0), np.bool_), NO_FRICTION, NOTHING, False)


class Start(Enum):
    """What the solver of a rung starts from."""

    BASIS = "last basis"
    IMPULSES = "last impulses"
    VELOCITY = "velocity"
    COLD = "cold start"


Solutions = Iterator[tuple[str, Attempt] | None]
"""Pairs (name, solution), yielded by a Python rung; None instead of a pair: the remaining rungs must not be tried."""


class Rung(NamedTuple):
    """One attempt of a law at a solution, a compiled kernel or a Python solver. Laws declare their rungs in order."""

    name: str  # reported in `Prediction.rung`
    start: Start  # a rung that starts from the last basis or impulses is skipped if there are none
    kernel: int | None = None  # number of the rung in the kernel of the law; None: a Python rung
    # for a Python rung: function of the problem and the last basis, or None for the basis
    solve: Callable[[Reduced, Array | None], Solutions] | None = None
    # name of the rung when there is no last basis and it starts from an empty one; empty: the rung is skipped then
    cold: str = ""


class LawData(ArrayRecord):
    """Settings of a law for kernels. The certificate uses conditions, directions, unlimited and the material.

    conditions … max_pivots: see `Law`; unlimited: whether every μ > 0 counts as ∞
    stiffness … drift: see `idyn.contact.ground.Material`; soft: see `idyn.contact.soft`
    """

    conditions: int
    directions: Matrix
    unlimited: bool
    predicts: bool
    midway: bool
    takes_torques: bool
    max_pivots: int
    stiffness: float
    dissipation: float
    beta: float
    sigma: float
    touching_only: bool
    drift: bool
    soft: SoftConstraints

    attempt: ClassVar[Kernel]
    """The law's kernel, see `Law.kernel`: each has a subclass of its own."""

    def __init__(self, law: "Law", soft: SoftConstraints) -> None:
        self.put(conditions=law.conditions.value, directions=law.directions, unlimited=law.unlimited_friction)
        self.put(predicts=law.predicts, midway=law.midway, takes_torques=law.takes_torques, max_pivots=law.max_pivots)
        self.put(**law.material._asdict(), soft=soft)


def polygon(edges: int, circumscribed: bool = False) -> Array:
    """Return the corners of the friction polygon, starting at +s (k, 2): inscribed in the unit circle or circumscribed.

    The inscribed polygon never exceeds the friction cone; the circumscribed one does, by up to 1/cos(π/k). Raises ConfigError
    for an odd number of edges, fewer than 4 or more than MOST_EDGES.
    """
    if not 4 <= edges <= MOST_EDGES or edges % 2:
        raise ConfigError("law.edges", f"expected an even number from 4 to {MOST_EDGES}, got {edges}")
    angles = 2 * np.pi * np.arange(edges) / edges
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    corners[np.abs(corners) < 1e-15] = 0.0
    return corners / np.cos(np.pi / edges) if circumscribed else corners


class Law:
    """A contact law: settings only, no state between calls. A new law is one file, and one struct and one member of `AnyLaw` in
    `idyn.laws`; a law without round cones, compliance and so on keeps the defaults."""

    name: str  # name of the kind, reported in `Prediction.law`
    conditions: Conditions  # which ones the certificate checks
    directions: Array = polygon(4)  # corners of the friction polygon (k, 2)
    material: Material = RIGID  # of the ground
    unlimited_friction: bool = False  # whether every μ > 0 counts as ∞
    predicts: bool = True  # whether it predicts contact forces; False: there are none, or they are measured
    # whether contacts open, stick without creep, or slide: `derivatives` and the contact modes of tasks follow from that
    sticks: bool = False
    # whether impulses inside the cones under which no contact moves or opens are a solution: the law neither brakes nor creeps,
    # and leaves the choice among such impulses to the selection
    holds_still: bool = False
    releases: bool = True  # whether separating contacts of unlimited friction carry no impulse
    # whether friction cones are round; `directions` are those of an inscribed polygon, for the selection
    round_cones: bool = False
    compliant: bool = False  # whether contacts are springs and dampers, so that every demand is feasible and has one solution
    midway: bool = False  # whether contact points are halfway between the surfaces
    takes_torques: bool = False  # whether it is also solved for given torques, see `idyn.prediction.predict`
    basis_width: int = 0  # columns of its basis, one row for each contact
    basis_type: np.dtype = np.dtype(np.bool_)  # a basis for kernels is boolean
    max_pivots: int = 0  # limit for one attempt of its kernel; 0: it does not pivot
    soft: Soft | None = None  # parameters of the soft constraints of MuJoCo, if the law has them
    # compiled function `(problem, law, basis, rung) → Attempt` that runs kernel rung number `rung` for a `ReducedProblem` and
    # `LawData`; `basis` (n, ·) is the starting basis and is overwritten with the next basis
    kernel: Kernel

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """From the quickest to the most robust, kernels first."""
        raise NotImplementedError

    def sticking(self, mu: Array) -> Array:
        """Return positive values for contacts that must stick under this law, whatever their friction (n). A feasible demand
        must not make them slip."""
        return np.zeros(len(mu))


@compiled
def no_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """Kernel of laws that have Python rungs only: not certified."""
    return unsolved(problem, law, basis)


@compiled
def unsolved(problem: ReducedProblem, law: LawData, basis: Array) -> Attempt:
    """Return zero impulses with the status NOT_CERTIFIED: the rung does not apply to this problem."""
    given = problem.dynamics.given
    face = Face(np.zeros((0, 0), np.bool_), law.directions, given.mu, law.unlimited, law.directions[:0])
    return Attempt(np.zeros(len(problem.b)), face, NOT_CERTIFIED, 0, basis, given.mu[:0], 0.0)


def law_data(law: Law, soft: SoftConstraints) -> LawData:
    """Return the law's settings for compiled code; their type selects the law's kernel. soft: see `LawData`"""
    return data_type(law.kernel)(law, soft)


@cache
def data_type(kernel: Kernel) -> type[LawData]:
    """Return the subclass of `LawData` for a law's kernel."""
    function = interpreted(kernel)
    name = f"LawData[{function.__module__}.{function.__name__}]"
    return type(name, (LawData,), {"__module__": LawData.__module__, "attempt": staticmethod(kernel)})


@compiled
def is_free(mu: float, unlimited: bool) -> bool:
    """Return whether friction with this μ is unlimited. unlimited: whether every μ > 0 counts as ∞"""
    return mu == np.inf or (unlimited and mu > 0.0)


@entry(Vector, bool)
def unlimited_somewhere(mu: Array, unlimited: bool) -> tuple[bool, bool]:
    """Return (some, all): whether the friction of at least one contact is unlimited; and whether in addition all other contacts
    are either unlimited or frictionless, so that no friction is limited."""
    some, nowhere = False, True
    for i in range(len(mu)):
        free = is_free(mu[i], unlimited)
        some = some or free
        nowhere = nowhere and (free or mu[i] == 0.0)
    return some, some and nowhere


@entry(Matrix, Vector, Vector, written(Vector))
def contact_velocity(Y: Array, b: Array, p: Array, u: Array) -> None:
    """Fill û = Y Yᵀ p + b (3n)."""
    nu = Y.shape[1]
    # x = Yᵀ p
    x = stack_array(nu)
    fill(x, 0.0)
    for row in range(len(b)):
        if p[row] != 0.0:
            for c in range(nu):
                x[c] += Y[row, c] * p[row]
    # û = Y x + b
    for row in range(len(b)):
        u[row] = b[row]
        for c in range(nu):
            u[row] += Y[row, c] * x[c]
