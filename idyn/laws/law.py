"""What a law is: numbers in, impulses out, and the set of impulses that solve it equally well."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from idyn.contact.ground import Material
from idyn.errors import ConfigError
from idyn.jit.compiled import compiled
from idyn.jit.dispatch import LAWS
from idyn.jit.memory import local
from idyn.jit.records import ArrayRecord, Matrix
from idyn.status import NOT_CERTIFIED, Conditions, Status
from idyn.terms.reduction import Reduced
from idyn.terms.stages import ReducedProblem
from idyn.types import Array, Record

Kernel = Callable[..., Any]

FACE_ZERO = 1e-9
"""Slack velocities up to this [m/s] count as zero when the face is read off a solution; it bounds the complementarity
error that choosing another point of the face can cause."""

MOST_EDGES = 64
"""Of a friction polygon, which is within 0.13 % of the circle then; work and memory grow with them."""

NO_FRICTION = np.zeros((0, 2))


class Face(NamedTuple):
    """The impulses that solve the law exactly as well as the one found (MATHEMATICS §3.5), all with the same J_uᵀ p.

    flags: for each contact (n, 2 + k, bool)
        0: it may carry a normal impulse, w_N = 0
        1: it slides, λ > 0, so its friction sum equals μ p_N
        2…: friction direction j may be loaded, w_F = 0
    directions: the friction polygon's corners in (s, t) coordinates, counter-clockwise (k, 2)
    mu, unlimited: friction coefficients (n), and whether the law takes every μ > 0 for ∞; tangential impulses are free then
    friction: of laws whose cone is round, flags being (n, 3): where each contact's friction points, (s, t) of unit length, or
        zero (n, 2); none (0, 2) where the cone is the polygon
    """

    flags: Array
    directions: Array
    mu: Array
    unlimited: bool
    friction: Array = NO_FRICTION


class LawSolution(Record, frozen=True):
    """p: contact impulses in S, T, N rows [N·s] (3n); face None when the law has one answer only; basis for the next call
    (n, ·); multipliers of the non-penetration rows for laws that are programs (n), and their ½ε‖p‖² [1/kg]."""

    p: Array
    face: Face | None
    status: Status
    iterations: int
    basis: Array
    multipliers: Array | None = None
    epsilon: float = 0.0


class Attempt(NamedTuple):
    """What a kernel of a law returns: as `LawSolution`, with none (0) for no multipliers, and the status as an integer."""

    p: Array
    face: Face
    multipliers: Array
    status: int
    iterations: int


class Start(Enum):
    """What a rung begins at."""

    BASIS = "last basis"
    IMPULSES = "last impulses"
    VELOCITY = "velocity"
    NOTHING = "nothing"


Solutions = Iterator[tuple[str, LawSolution] | None]
"""Named solutions of a Python rung, one after the other; None says that the remaining rungs are not worth trying."""


class Rung(NamedTuple):
    """One way to solve a law. Declared once, in the law; rungs are tried in their order.

    name; start: what it begins at. Rungs that begin at the last basis or impulses are tried when there are some
    kernel: its number in the law's kernel; None: it is Python
    solve: of a Python rung, from the problem and the last basis, None without
    cold: name of a kernel rung that begins at an empty basis where there is no last one; '' when it does not
    """

    name: str
    start: Start
    kernel: int | None = None
    solve: Callable[[Reduced, Array | None], Solutions] | None = None
    cold: str = ""


class LawData(ArrayRecord):
    """A law's settings, as its kernel sees them. What is claimed of an answer: conditions, directions, unlimited, material.

    conditions: a member of `Conditions`; directions: of the friction polygon (k, 2)
    unlimited: whether the law takes every μ > 0 for ∞; max_pivots: of one attempt
    stiffness … touching_only: see `idyn.contact.ground.Material`
    """

    conditions: int
    directions: Matrix
    unlimited: bool
    max_pivots: int
    stiffness: float
    dissipation: float
    beta: float
    sigma: float
    touching_only: bool

    def __init__(self, law: "Law") -> None:
        self.put(conditions=law.conditions.value, directions=law.directions, unlimited=law.unlimited_friction)
        self.put(**law.material._asdict(), max_pivots=law.max_pivots)


class Law(Protocol):
    """A contact law: settings only, no memory. A new law is one file, and one struct and one member of `AnyLaw` in
    `idyn.laws.settings`.

    conditions, directions, material: what its answers are certified against
    unlimited_friction: it takes every μ > 0 for ∞
    basis_width, basis_type: columns of its warm start, one row per contact, and the type of what is in them; kernels begin at
        masks only
    max_pivots: of one attempt, for its kernel; 0 where it does not pivot
    rungs: from the quickest to the most robust, those with kernels first
    kernel: `(problem, law, basis, rung) → Attempt`, compiled, for the rungs that have a number: the law's rung of that number
        for a `ReducedProblem`, with a `LawData`; it overwrites `basis` (n, ·), where it begins, with the next
    """

    name: str
    conditions: Conditions
    directions: Array
    material: Material
    unlimited_friction: bool
    basis_width: int
    basis_type: np.dtype
    kernel: Kernel
    max_pivots: int

    @property
    def rungs(self) -> tuple[Rung, ...]: ...

    def sticking(self, mu: Array) -> Array:
        """Positive for contacts whose tangential velocity this law wants to vanish whatever it takes (n): what a consistent
        demand must allow for."""
        ...


@compiled
def no_kernel(problem: ReducedProblem, law: LawData, basis: Array, rung: int) -> Attempt:
    """The kernel of laws whose rungs are all Python."""
    return unsolved(problem, law, basis)


@compiled
def unsolved(problem: ReducedProblem, law: LawData, basis: Array) -> Attempt:
    """No impulses: this rung does not apply."""
    given = problem.dynamics.given
    face = Face(np.zeros((0, 0), np.bool_), law.directions, given.mu, law.unlimited, law.directions[:0])
    return Attempt(np.zeros(len(problem.b)), face, given.mu[:0], NOT_CERTIFIED, 0)


def law_data(law: Law) -> LawData:
    """The law's settings for compiled code; their type stands for the law's kernel."""
    record: LawData = LAWS.record_for(LawData, law.kernel)(law)
    return record


@compiled
def is_free(mu: float, unlimited: bool) -> bool:
    """Whether a contact's tangential impulse has no limit."""
    return mu == np.inf or (unlimited and mu > 0.0)


def polygon(edges: int, circumscribed: bool = False) -> Array:
    """Corners of the friction polygon on the unit circle, starting at +s (k, 2); blown up to enclose it on request.

    The inscribed polygon never asks for more friction than there is; the circumscribed one may, by 1/cos(π/k). Raises
    ConfigError for an odd number of edges, fewer than 4 or more than MOST_EDGES.
    """
    if not 4 <= edges <= MOST_EDGES or edges % 2:
        raise ConfigError("law.edges", f"expected an even number from 4 to {MOST_EDGES}, got {edges}")
    angles = 2 * np.pi * np.arange(edges) / edges
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    corners[np.abs(corners) < 1e-15] = 0.0
    return corners / np.cos(np.pi / edges) if circumscribed else corners


@compiled
def unlimited_somewhere(mu: Array, unlimited: bool) -> tuple[bool, bool]:
    """Whether some contact's friction has no limit, and whether none has one: the others are frictionless."""
    some, nowhere = False, True
    for i in range(len(mu)):
        free = is_free(mu[i], unlimited)
        some = some or free
        nowhere = nowhere and (free or mu[i] == 0.0)
    return some, some and nowhere


@compiled
def contact_velocity(Y: Array, b: Array, p: Array, u: Array) -> None:
    """Fill û = Y Yᵀ p + b (3n)."""
    nu = Y.shape[1]
    # x = Yᵀ p
    x = local(nu)
    for c in range(nu):
        x[c] = 0.0
    for row in range(len(b)):
        if p[row] != 0.0:
            for c in range(nu):
                x[c] += Y[row, c] * p[row]
    # û = Y x + b
    for row in range(len(b)):
        u[row] = b[row]
        for c in range(nu):
            u[row] += Y[row, c] * x[c]
