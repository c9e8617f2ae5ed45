"""Errors of friction polygons compared with the round cone: `idyn compare cone-study`.

A quadruped in its stance slides over the ground, in directions between two corners of the polygon. In further states, random
demands drag its feet. Laws: Coulomb's law with 4 … 64 edges, and the exact cone.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.laws import make_law
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Array, Consistency, ContactSet, Prediction, Record, Selection, State
from sim_harness.doctor import DT
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table
from sim_harness.studies.bench import predictions
from sim_harness.studies.study import Figures, Picture, Study, Sweep

ROBOT, MU, SPEED = "quadruped", 0.3, 0.5
"""Robot, friction coefficient, sliding speed [m/s]."""

EDGES = (4, 8, 16, 32, 64)
EXACT = "exact-cone"

DIRECTIONS = 37
"""Directions of sliding between two adjacent corners of the polygon."""

DRAGGED, DEMAND = 60, 30.0
"""Number of states with dragged feet, and standard deviation of their demands [rad/s²]."""

PLAIN = Options.paper(selection=Selection.OFF, consistency=Consistency.OFF, ground=Ground.rigid())
"""Options without selection and projection, so that the law alone decides."""


class Errors(NamedTuple):
    """Errors of a law.

    Of a sliding robot, compared with the known answer; largest values over all directions:
    In states with dragged feet, compared with the exact cone; RMS over these states:
    """

    friction: float  # difference between the friction against the sliding velocity and μ Σ f_N, divided by μ Σ f_N
    angle: float  # between the friction force and the direction opposite to the sliding velocity [rad]
    impulse: float  # relative error of the change of the unactuated momentum
    velocity: float  # largest error of a component of v⁺ [m/s, rad/s]
    seconds: float  # median run time of a prediction without a guess, over the dragged states [s]


class Stance(Record, frozen=True):
    """The robot, its stance, and its feet on the ground."""

    robot: Robot
    q: Array
    contacts: ContactSet


def stance() -> Stance:
    """Return the robot in its stance, without torque limits, with gap 0 at every foot."""
    robot, q = load_robot(ROBOT)
    unlimited = robot.variant(tau_max=dict.fromkeys(robot.joint_names, np.inf))
    contacts = contacts_from_geometry(unlimited, q, Flat(), margin=np.inf)
    n = len(contacts)
    return Stance(unlimited, q, msgspec.structs.replace(contacts, gaps=np.zeros(n), mu=np.full(n, MU)))


def turned(contacts: ContactSet, angle: float) -> ContactSet:
    """Return contacts whose tangents are rotated about the normals by an angle [rad]."""
    across = np.cross(contacts.normals, contacts.tangents)
    return msgspec.structs.replace(contacts, tangents=np.cos(angle) * contacts.tangents + np.sin(angle) * across)


def sliding_errors(at: Stance, law: Law, edges: int) -> tuple[float, float]:
    """Return `friction` and `angle` of `Errors` for a stance that slides along x.

    They are the largest values over `DIRECTIONS` directions between two corners of the polygon.
    """
    v = np.zeros(at.robot.nv)
    v[0] = SPEED
    lack, deviation = 0.0, 0.0
    for angle in np.linspace(0.0, 2.0 * np.pi / edges, DIRECTIONS):
        contacts, demand = turned(at.contacts, angle), np.zeros(at.robot.na)
        answer = predict(at.robot, State(q=at.q, v=v), contacts, demand, law=law, dt=DT, options=PLAIN)
        friction = answer.force.sum(axis=0)
        lack = max(lack, abs(1.0 + friction[0] / (MU * friction[2])))
        deviation = max(deviation, abs(np.arctan2(friction[1], -friction[0])))
    return lack, deviation


def dragged(at: Stance) -> list[tuple[State, Array]]:
    """Return random states at the stance with random demands that drag the feet; about half of the feet slide."""
    rng, n = np.random.default_rng(0), at.robot
    return [(State(q=at.q, v=0.2 * rng.normal(size=n.nv)), DEMAND * rng.normal(size=n.na)) for _ in range(DRAGGED)]


def _answers(at: Stance, states: list[tuple[State, Array]], law: Law) -> tuple[list[Prediction], float]:
    """Return the predictions for all states, without a guess, and their median run time [s]."""
    ticks = [(state, at.contacts, demand) for state, demand in states]
    [*predictions(at.robot, ticks[:2], law, PLAIN, warm=False)]  # warm up
    times, answers = zip(*predictions(at.robot, ticks, law, PLAIN, warm=False), strict=True)
    return [*answers], float(np.median(times))


def _relative(at: Stance, state: State, one: Prediction, other: Prediction) -> float:
    """Return the distance between the changes of the unactuated momentum in two predictions, relative to that in `other`."""
    u, M = at.robot.tree.u, at.robot.terms(state.q, state.v).M.copy()
    difference, whole = M[u] @ (one.v_plus - other.v_plus), M[u] @ (other.v_plus - state.v)
    return float(np.linalg.norm(difference) / np.linalg.norm(whole))


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def errors(at: Stance, states: list[tuple[State, Array]], law: Law, edges: int, exact: list[Prediction]) -> Errors:
    """Return the errors of a law; `impulse` and `velocity` over the states that this law and the exact cone both solved."""
    answers, seconds = _answers(at, states, law)
    both = [
        (state, answer, other)
        for (state, _), answer, other in zip(states, answers, exact, strict=True)
        if answer.law == law.name and other.law == EXACT and other.p.any()
    ]
    impulses = [_relative(at, state, answer, other) for state, answer, other in both]
    speeds = [float(np.abs(answer.v_plus - other.v_plus).max()) for _, answer, other in both]
    return Errors(*sliding_errors(at, law, edges), _rms(impulses), _rms(speeds), seconds)


def error_table(found: Figures) -> Table:
    """Return a table of errors and run times by law, with the order of convergence from each polygon to the next."""
    head = ["law", "missing friction [%]", "order", "direction error [°]", "order", "momentum, dragged [%]", "order"]
    body: list[list[str]] = []
    last: Errors | None = None
    for name, e in found["laws"].items():
        cells = [name]
        for field, scale in (("friction", 100.0), ("angle", np.degrees(1.0)), ("impulse", 100.0)):
            value = getattr(e, field)
            order = "–" if last is None or name == EXACT else f"{np.log2(getattr(last, field) / value):.2f}"
            cells += [f"{scale * value:.3g}", order]
        body.append([*cells, f"{e.velocity:.2g}", f"{1e6 * e.seconds:.0f}"])
        last = e
    return [[*head, "v⁺, dragged [m/s, rad/s]", "run time [µs]"], *body]


def error_picture(found: Figures) -> bytes:
    """Draw errors over the number of edges, with lines of first and second order."""
    k, polygons = np.array(EDGES, dtype=float), [found["laws"][f"{edges} edges"] for edges in EDGES]
    parts = {"missing friction": "friction", "direction of friction [rad]": "angle", "momentum, dragged": "impulse"}
    lines: dict[str, Line] = {label: (k, [getattr(e, field) for e in polygons], "o-") for label, field in parts.items()}
    lines |= {"π/k": (k, np.pi / k, "k:"), "1 − cos(π/k)": (k, 1.0 - np.cos(np.pi / k), "k--")}
    ticks = {str(edges): edges for edges in EDGES}
    panel = Plot(lines=lines, ticks=ticks, log="xy", legend=True, axes={"xlabel": "edges k", "ylabel": "error"})
    return picture([panel], size=(6.5, 4.2))


def study() -> Study:
    """Return the study of friction polygons."""
    at = stance()
    states = dragged(at)
    exact, _ = _answers(at, states, make_law(EXACT))
    laws: dict[str, Any] = {f"{edges} edges": (make_law("coulomb", edges=edges), edges) for edges in EDGES}
    laws[EXACT] = (make_law(EXACT), EDGES[0])
    return Study(
        "Edges of the friction cone",
        "Coulomb's law with polygons of k edges, compared with the round cone.",
        sweeps={"laws": Sweep((laws,), lambda law: errors(at, states, law[0], law[1], exact))},
        tables=(error_table,),
        pictures=(
            Picture("edges", "Missing friction decreases with 1/k², the error of its direction with 1/k.", error_picture),
        ),
    )
