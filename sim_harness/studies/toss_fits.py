"""Rules of the comparison: split, loss, bounds and budget. They are the same for every engine and precede every fit.

- Split: tosses are numbered in the order of the file from 0. Those with number % 4 == 3 are for the judge, the others for fits.
- Body: scale and centre of mass come from the free flights of all tosses for fits, without any contact model.
- Start: the measured state of the first sample, nothing of what follows.
- Loss: mean over samples after the first, then over tosses, of position error [block widths] + rotation error [rad].
- Parameters: those that `ENTRIES` lists for an engine, within `BOUNDS`, from the start values there.
- Budget: `EVALUATIONS` evaluations of the loss by the Nelder-Mead method in the logarithms of the parameters, on every
  `EVERY`-th toss for fits. The best evaluated point counts.
- Judge: the tosses that no fit has seen.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from scipy.optimize import minimize

from controllers.config.loading import NonNegative, Positive, Settings, parse
from idyn.errors import ConfigError, nearest
from idyn.types import Array
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import Engine
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.engines.sap import Sap
from sim_harness.engines.viscous import Viscous
from sim_harness.studies.measured_tosses import EDGE, Toss
from sim_harness.studies.toss_forecasts import Block, Contact, EngineForecaster, Flight, Forecast, Forecaster, MujocoForecaster

JUDGED_OF, JUDGED = 4, 3
"""A toss is for the judge if its number modulo the first is the second."""

EVALUATIONS, EVERY = 50, 6
"""Evaluations of the loss per engine, which uses every sixth toss for fits, 50 of 300: all fits end within minutes."""


class Range(NamedTuple):
    """Bounds and start value of a parameter. low > 0"""

    low: float
    start: float
    high: float
    unit: str


BOUNDS = {
    "mu": Range(0.05, 0.2, 0.6, ""),
    "inertia": Range(0.4, 1.0, 2.5, "m h²"),
    "stiffness": Range(3e3, 3e4, 1e6, "N/m"),
    "dissipation": Range(5e-4, 5e-3, 5e-2, "s"),
    "restitution": Range(5e-3, 0.1, 0.5, ""),
    "drag": Range(0.02, 0.5, 20.0, "N·s/m"),
    "time_constant": Range(2e-3, 8e-3, 5e-2, "s"),
    "damping_ratio": Range(0.2, 1.0, 3.0, ""),
}
"""Parameters of all engines.

mu: friction coefficient
inertia: moment of inertia about the centre of mass in units of mass times half edge squared, the same about all axes; a solid
    cube has 0.667, a hollow one 1.11
stiffness: of each contact point; dissipation: damping over stiffness
restitution: of rigid contacts, ratio of the speeds after and before an impact; drag: viscous friction of each contact point
time_constant, damping_ratio: `solref` of MuJoCo
"""


def rules() -> str:
    """Return the rules of a fit that may change, as text."""
    return f"{EVALUATIONS} evaluations on every {EVERY}th toss"


def split(count: int) -> tuple[Array, Array]:
    """Return the numbers of the tosses for fits and of those for the judge, of `count` tosses."""
    numbers = np.arange(count)
    judged = numbers % JUDGED_OF == JUDGED
    return numbers[~judged], numbers[judged]


Forecasts = Callable[[Toss, int, int], Forecast]
"""Called as a `Forecaster`: with a toss, the first sample, and the number of samples."""

WINDOWS: dict[str, int | None] = {"one step": 2, "0.1 s": 16, "whole toss": None}
"""Name → samples of a window, its given first sample included; None: all of the toss."""


class Errors(NamedTuple):
    """Errors of tosses (n each). position [block widths]; rotation: angle [rad]"""

    position: Array
    rotation: Array

    @property
    def loss(self) -> Array:
        """Loss of each toss: position error [block widths] + rotation error [rad] (n)."""
        return self.position + self.rotation


def sample_errors(toss: Toss, first: int, forecast: Forecast) -> tuple[Array, Array]:
    """Return the error of position [block widths] and the angle of rotation [rad] of every sample but the given one (N − 1)."""
    last = first + len(forecast.position)
    distance = np.linalg.norm(forecast.position - toss.position[first:last], axis=1) / EDGE
    relative = np.einsum("nji,njk->nik", forecast.rotation, toss.rotation[first:last])
    return distance[1:], angles_of(relative)[1:]


def angles_of(rotations: Array) -> Array:
    """Return the angles of rotation matrices [rad] (N). Accurate for small angles too."""
    skew = rotations - np.swapaxes(rotations, 1, 2)
    sine = 0.5 * np.sqrt(0.5) * np.linalg.norm(skew, axis=(1, 2))
    cosine = 0.5 * (np.trace(rotations, axis1=1, axis2=2) - 1.0)
    return np.arctan2(sine, cosine)


def whole_errors(forecaster: Forecasts, tosses: Sequence[Toss]) -> Errors:
    """Return the errors of forecasts of whole tosses from their first samples, means over the samples of each."""
    return means_of([sample_errors(toss, 0, forecaster(toss, 0, len(toss))) for toss in tosses])


def means_of(errors: Sequence[tuple[Array, Array]]) -> Errors:
    """Return the means over the samples of each toss. errors: results of `sample_errors`"""
    return Errors(*(np.array([each.mean() for each in column]) for column in zip(*errors, strict=True)))


def window_errors(forecaster: Forecasts, tosses: Sequence[Toss], samples: int) -> Errors:
    """Return the errors at the end of windows, means over the windows of each toss.

    Windows of `samples` samples follow one another from the first sample of the toss; each starts from the measured state.
    """
    found = []
    for toss in tosses:
        firsts = range(0, len(toss) - samples + 1, samples - 1)
        ends = [sample_errors(toss, first, forecaster(toss, first, samples)) for first in firsts]
        found.append((np.mean([end[0][-1] for end in ends]), np.mean([end[1][-1] for end in ends])))
    return Errors(*(np.array(column) for column in zip(*found, strict=True)))


SUBSTEPS, EDGES = 4, 16
"""Steps per sample of compliant engines: 1.7 ms; rigid ones gain nothing by more than one. Edges of friction polygons."""

Values = Mapping[str, float]
"""Parameter → value."""

RIGID, SOFT = ("mu", "inertia", "restitution"), ("mu", "inertia", "stiffness", "dissipation")


class Entry(NamedTuple):
    """An engine. parameters: their names, rows of `BOUNDS`; forecaster: returns that of a block with their values"""

    parameters: tuple[str, ...]
    forecaster: Callable[[Block, Values], Forecaster]

    def build(self, flight: Flight, values: Values) -> Forecaster:
        """Return the forecaster of a body with the values of the parameters."""
        return self.forecaster(flight.block(values["inertia"]), values)


def _rigid(engine: Callable[[float], Engine]) -> Entry:
    """engine: returns the engine with a coefficient of restitution"""
    return Entry(RIGID, lambda block, at: EngineForecaster(block, engine(at["restitution"]), Contact(at["mu"]), 1))


def _contact(at: Values) -> Contact:
    return Contact(at["mu"], at["stiffness"], at["dissipation"])


def _soft(engine: Engine) -> Entry:
    return Entry(SOFT, lambda block, at: EngineForecaster(block, engine, _contact(at), SUBSTEPS))


def _drake(block: Block, at: Values) -> Forecaster:
    from sim_harness.studies.toss_drake import DrakeForecaster  # noqa: PLC0415 - an optional package

    return DrakeForecaster(block, _contact(at))


def _mujoco(block: Block, at: Values) -> Forecaster:
    return MujocoForecaster(block, at["mu"], (at["time_constant"], at["damping_ratio"]))


ENTRIES = {
    "newton": _soft(Newton()),
    "sap": _soft(Sap()),
    "first-order": _soft(FirstOrder(candidates="touching")),
    "penalty": _soft(Penalty()),
    "newton-rigid": _rigid(lambda e: Newton(restitution=e)),
    "lcp": _rigid(lambda e: PolygonLcp(edges=EDGES, restitution=e)),
    "dissipation": _rigid(lambda e: Dissipation(edges=EDGES, restitution=e)),
    "viscous": Entry(
        ("inertia", "drag"), lambda block, at: EngineForecaster(block, Viscous(coefficient=at["drag"]), Contact(1.0), 1)
    ),
    "no-slip": Entry(("inertia",), lambda block, _: EngineForecaster(block, NoSlip(), Contact(1.0), 1)),
    "mujoco": Entry(("mu", "inertia", "time_constant", "damping_ratio"), _mujoco),
    "drake": Entry(SOFT, _drake),
}
"""Name → engine. `newton` has compliant contacts, `newton-rigid` rigid ones."""

PACKAGES = {"mujoco": "mujoco", "drake": "pydrake"}
"""Name of an engine → Python package that it needs."""


def installed() -> list[str]:
    """Return the names of the engines whose packages are installed."""
    return [name for name in ENTRIES if name not in PACKAGES or find_spec(PACKAGES[name]) is not None]


REFERENCE = "mujoco"
"""Engine with which all others are compared toss by toss."""


class Identified(Settings, frozen=True):
    """Parameters of an engine."""

    values: dict[str, Positive]  # name → value
    intervals: dict[str, tuple[Positive, Positive]]  # name → low and high end of the 95 % interval
    loss: NonNegative  # mean loss of the tosses of the fit [block widths + rad]
    evaluations: Annotated[int, msgspec.Meta(ge=0)]  # of the loss


class Parameters(Settings, frozen=True):
    """flight: the body; tosses: number of tosses for fits; rules: of the fits; engines: name → parameters"""

    flight: Flight
    tosses: int
    rules: str
    engines: dict[str, Identified]


def resumed(path: Path, begun: Parameters) -> Parameters:
    """Return the parameters of a file if its body, tosses and rules are those of `begun`, else `begun`: fits that are
    finished are not repeated. Raises ConfigError for a malformed file."""
    if not path.is_file():
        return begun
    found = load_parameters(path)
    same = found.tosses == begun.tosses and found.rules == begun.rules
    bodies = [(each.flight.gravity, *each.flight.centre) for each in (found, begun)]
    return found if same and np.allclose(bodies[0], bodies[1], rtol=1e-9, atol=1e-12) else begun


def save_parameters(path: Path, parameters: Parameters) -> None:
    """Write the file, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(msgspec.to_builtins(parameters), indent=1) + "\n", encoding="utf-8")


def load_parameters(path: Path) -> Parameters:
    """Read the file. Raises ConfigError that names the file or the first invalid field."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError("--parameters", f"expected a JSON file with identified parameters, got {path}: {error}") from error
    found = parse(data, Parameters, path.name)
    for name, identified in found.engines.items():
        where = f"{path.name}.engines.{name}"
        if name not in ENTRIES:
            raise ConfigError(where, f"unknown engine{nearest(name, ENTRIES)}")
        if set(identified.values) != set(ENTRIES[name].parameters):
            expected, got = (", ".join(sorted(names)) or "none" for names in (ENTRIES[name].parameters, identified.values))
            raise ConfigError(f"{where}.values", f"expected {expected}, got {got}")
        for key, value in identified.values.items():
            if not math.isfinite(value):
                raise ConfigError(f"{where}.values.{key}", f"expected a finite number, got {value}")
    return found


FIRST_STEP = 0.3
"""Edge of the first simplex of the Nelder-Mead method, in logarithms: 35 %."""

RESAMPLES, COVERED = 400, 0.95
"""Resamples of the tosses for the intervals, and the share of them that an interval holds."""

USED = 0.8
"""Share of the evaluated points, the best ones, to which the quadratic of the intervals is fitted. Fewer points lie too close
together: their range would bound the intervals."""


class Trials(NamedTuple):
    """Evaluated points: logarithms of the parameters (k, p), and the loss of each toss (k, n)."""

    points: Array
    losses: Array


def identify(entry: Entry, flight: Flight, tosses: Sequence[Toss], evaluations: int = EVALUATIONS) -> Identified:
    """Return the best parameters of an engine and their intervals. tosses: all those for fits"""
    some = tosses[::EVERY]
    trials = search(lambda values: whole_errors(entry.build(flight, values), some).loss, entry.parameters, evaluations)
    best = int(trials.losses.mean(axis=1).argmin())
    values = np.exp(trials.points[best]).tolist()
    ends = np.exp(intervals(trials, entry.parameters)).tolist()
    return Identified(
        values=dict(zip(entry.parameters, values, strict=True)),
        intervals={name: (low, high) for name, low, high in zip(entry.parameters, *ends, strict=True)},
        loss=float(trials.losses[best].mean()),
        evaluations=len(trials.points),
    )


def search(losses_at: Callable[[dict[str, float]], Array], names: Sequence[str], evaluations: int) -> Trials:
    """Return all points that the Nelder-Mead method evaluates. losses_at: returns the loss of each toss (n)"""
    points, losses = list[Array](), list[Array]()

    def mean_loss(point: Array) -> float:
        points.append(point.copy())
        losses.append(losses_at(dict(zip(names, np.exp(point).tolist(), strict=True))))
        return float(losses[-1].mean())

    low, start, high = np.log([[r.low, r.start, r.high] for r in map(BOUNDS.__getitem__, names)]).T
    simplex = np.vstack([start, *(start + FIRST_STEP * each for each in np.eye(len(names)))])
    minimize(
        mean_loss,
        start,
        method="Nelder-Mead",
        bounds=np.column_stack([low, high]),
        options={"maxfev": evaluations, "initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-5},
    )
    return Trials(np.array(points), np.array(losses))


def intervals(trials: Trials, names: Sequence[str]) -> tuple[Array, Array]:
    """Return low and high ends of the parameters' intervals, in logarithms (p each): a bootstrap over the tosses.

    A quadratic is fitted to the loss at the best `USED` of the evaluated points, for each resample of the tosses. Its minimum,
    within the range of these points, is the resample's parameters. This replaces a fit per resample.
    """
    p = trials.points.shape[1]
    terms = (p + 1) * (p + 2) // 2
    order = trials.losses.mean(axis=1).argsort()[: max(2 * terms, int(USED * len(trials.points)))]
    points = trials.points[order]
    middle, spread = points[0], np.maximum(points.std(axis=0), 1e-6)
    x = (points - middle) / spread
    to_quadratic = np.linalg.pinv(_monomials(x))
    pick = np.random.default_rng(0).integers(0, trials.losses.shape[1], (RESAMPLES, trials.losses.shape[1]))
    found = np.array([_minimum(to_quadratic @ trials.losses[order][:, chosen].mean(axis=1), x) for chosen in pick])
    tail = 0.5 * (1.0 - COVERED)
    low, high = np.quantile(middle + spread * found, [tail, 1.0 - tail], axis=0)
    return low, high


def _monomials(x: Array) -> Array:
    """Return 1, x_i and x_i x_j for i ≤ j of points (k, p)."""
    i, j = np.triu_indices(x.shape[1])
    return np.column_stack([np.ones(len(x)), x, x[:, i] * x[:, j]])


def _minimum(coefficients: Array, x: Array) -> Array:
    """Return where a quadratic is least within the box of the points x (k, p)."""
    p = x.shape[1]
    slope, i, j = coefficients[1 : p + 1], *np.triu_indices(p)
    H = np.zeros((p, p))
    np.add.at(H, (i, j), coefficients[p + 1 :])
    H = H + H.T
    bounds = np.column_stack([x.min(axis=0), x.max(axis=0)])
    value, gradient = lambda at: slope @ at + 0.5 * at @ H @ at, lambda at: slope + H @ at
    return minimize(value, np.zeros(p), jac=gradient, bounds=bounds, method="L-BFGS-B").x
