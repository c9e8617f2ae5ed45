"""What the edges of a friction polygon cost beside the round cone, as a page: `idyn compare cone-study`.

A quadruped in its stance slides over the ground, in every direction against the polygons' corners, and sways with feet that are
dragged; under Coulomb's law with 4 … 64 edges and under the exact cone.
"""

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import msgspec
import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.laws import make_law
from idyn.laws.law import Law
from idyn.model.robot import Robot
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Array, Consistency, ContactSet, Prediction, Record, Selection, State
from sim_harness.report.plots import STYLE, png
from sim_harness.report.report import Report

ROBOT, MU, SPEED, DT = "quadruped", 0.3, 0.5, 1e-3
"""Friction coefficient, speed of the slide [m/s], period of the prediction [s]."""

EDGES = (4, 8, 16, 32, 64)
EXACT = "exact-cone"

DIRECTIONS = 37
"""Between one corner and the next."""

DRAGGED, DEMAND = 60, 30.0
"""States that are dragged, and their demands [rad/s²]."""

PLAIN = Options(selection=Selection.OFF, consistency=Consistency.OFF)


class Errors(Record, frozen=True):
    """Of a law, beside the exact cone's where nothing else is known: the worst of all directions, or root mean squares.

    friction: what it lacks along the slide, as a share of μ Σ f_N; angle: by which it points elsewhere [rad]
    impulse: of all contacts on what has no motor, as a share of it; velocity: largest of v⁺ [m/s or rad/s]
    seconds: median of a prediction without a guess, of the dragged states [s]
    """

    friction: float
    angle: float
    impulse: float
    velocity: float
    seconds: float


class Stance(Record, frozen=True):
    """The robot, its stance, and its feet on the ground."""

    robot: Robot
    q: Array
    contacts: ContactSet


def stance() -> Stance:
    robot, q = load_robot(ROBOT)
    unlimited = robot.variant(tau_max=dict.fromkeys(robot.joint_names, np.inf))
    contacts = contacts_from_geometry(unlimited, q, Flat(), margin=np.inf)
    n = len(contacts)
    return Stance(unlimited, q, msgspec.structs.replace(contacts, gaps=np.zeros(n), mu=np.full(n, MU)))


def turned(contacts: ContactSet, angle: float) -> ContactSet:
    """The same contacts with their tangents turned about their normals [rad]."""
    across = np.cross(contacts.normals, contacts.tangents)
    return msgspec.structs.replace(contacts, tangents=np.cos(angle) * contacts.tangents + np.sin(angle) * across)


def sliding_errors(at: Stance, law: Law, edges: int) -> tuple[float, float]:
    """What friction lacks along x and by how much it points elsewhere, of a stance that slides along x, worst of all directions
    between two corners."""
    v = np.zeros(at.robot.nv)
    v[0] = SPEED
    lacks, off = 0.0, 0.0
    for angle in np.linspace(0.0, 2.0 * np.pi / edges, DIRECTIONS):
        answer = _answer(at, State(q=at.q, v=v), turned(at.contacts, angle), np.zeros(at.robot.na), law)
        friction = answer.force.sum(axis=0)
        lacks = max(lacks, abs(1.0 + friction[0] / (MU * friction[2])))
        off = max(off, abs(np.arctan2(friction[1], -friction[0])))
    return lacks, off


def dragged(at: Stance) -> list[tuple[State, Array]]:
    """States near the stance with joints that are asked to drag the feet: about half of them slide."""
    rng = np.random.default_rng(0)
    states = []
    for _ in range(DRAGGED):
        v = 0.2 * rng.normal(size=at.robot.nv)
        states.append((State(q=at.q, v=v), DEMAND * rng.normal(size=at.robot.na)))
    return states


def all_errors(progress: Callable[[int, int, str], None]) -> dict[str, Errors]:
    """Of each polygon and of the exact cone, by name."""
    at = stance()
    states = dragged(at)
    exact, seconds = _answers(at, states, make_law(EXACT))
    kept = [i for i, answer in enumerate(exact) if answer.law == EXACT and answer.p.any()]
    found = {}
    for done, edges in enumerate(EDGES):
        name, law = f"{edges} edges", make_law("coulomb", edges=edges)
        progress(done, len(EDGES) + 1, name)
        answers, took = _answers(at, states, law)
        both = [i for i in kept if answers[i].law == law.name]
        impulses = [_relative(at, states[i][0], answers[i], exact[i]) for i in both]
        speeds = [np.abs(answers[i].v_plus - exact[i].v_plus).max() for i in both]
        found[name] = Errors(*sliding_errors(at, law, edges), _rms(impulses), _rms(speeds), took)
    progress(len(EDGES), len(EDGES) + 1, EXACT)
    found[EXACT] = Errors(*sliding_errors(at, make_law(EXACT), EDGES[0]), 0.0, 0.0, seconds)
    return found


def _answers(at: Stance, states: list[tuple[State, Array]], law: Law) -> tuple[list[Prediction], float]:
    """To all states, and the median time of one [s]."""
    for state, demand in states[:2]:  # compiles what is not yet
        _answer(at, state, at.contacts, demand, law)
    answers, times = [], []
    for state, demand in states:
        begin = time.perf_counter()
        answers.append(_answer(at, state, at.contacts, demand, law))
        times.append(time.perf_counter() - begin)
    return answers, float(np.median(times))


def _answer(at: Stance, state: State, contacts: ContactSet, demand: Array, law: Law) -> Prediction:
    return predict(at.robot, state, contacts, demand, law=law, dt=DT, options=PLAIN)


def _relative(at: Stance, state: State, one: Prediction, other: Prediction) -> float:
    """How far the changes of v_u that two predictions make are from one another, in momentum, as a share of the other."""
    u, M = at.robot.tree.u, at.robot.terms(state.q, state.v).M.copy()
    difference, whole = M[u] @ (one.v_plus - other.v_plus), M[u] @ (other.v_plus - state.v)
    return float(np.linalg.norm(difference) / np.linalg.norm(whole))


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def error_table(found: dict[str, Errors]) -> list[list[str]]:
    """Errors and times by law, and of each polygon the order since the one before."""
    head = ["law", "lacks of friction [%]", "order", "off its direction [°]", "order", "momentum, dragged [%]", "order"]
    body: list[list[str]] = []
    before = None
    for name, e in found.items():
        cells = [name]
        for field, scale in (("friction", 100.0), ("angle", np.degrees(1.0)), ("impulse", 100.0)):
            value, last = getattr(e, field), 0.0 if before is None else getattr(before, field)
            ordered = name != EXACT and last > 0.0
            cells += [f"{scale * value:.3g}", f"{np.log2(last / value):.2f}" if ordered else "–"]
        body.append([*cells, f"{e.velocity:.2g}", f"{1e6 * e.seconds:.0f}"])
        before = e
    return [[*head, "v⁺, dragged [m/s, rad/s]", "a prediction [µs]"], *body]


def error_picture(found: dict[str, Errors]) -> bytes:
    """Errors over edges, with lines of first and second order (PNG)."""
    polygons = np.array(EDGES, dtype=float)
    parts = {"friction that is lacking": "friction", "direction of friction [rad]": "angle", "momentum, dragged": "impulse"}
    with mpl.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(6.5, 4.2))
        for label, field in parts.items():
            axis.loglog(polygons, [getattr(found[f"{k} edges"], field) for k in EDGES], "o-", label=label)
        axis.loglog(polygons, np.pi / polygons, ":", color="0.5", label="π/k")
        axis.loglog(polygons, 1.0 - np.cos(np.pi / polygons), "--", color="0.5", label="1 − cos(π/k)")
        axis.set_xticks(polygons, [str(k) for k in EDGES])
        axis.minorticks_off()
        axis.set_xlabel("edges k")
        axis.set_ylabel("error")
        axis.legend()
        return png(figure)


def study(folder: Path, progress: Callable[[int, int, str], None]) -> list[list[list[str]]]:
    """Run all of it, write table and picture to `report.html` in a folder; the tables. progress: done, of how many, which."""
    folder.mkdir(parents=True, exist_ok=True)
    found = all_errors(progress)
    rows, picture = error_table(found), error_picture(found)
    report = Report("Edges of the friction cone", "Coulomb's law with polygons of k edges beside the round cone.")
    report.table(rows)
    (folder / "edges.png").write_bytes(picture)
    report.picture(picture, "How much friction is lacking falls with 1/k², where it points with 1/k.")
    (folder / "report.html").write_text(report.html, encoding="utf-8")
    return [rows]
