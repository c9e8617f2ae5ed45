"""Identification of an engine's parameters on the tosses for fits, by the rules of `plan`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from idyn.types import Array
from sim_harness.judge.tosses import Toss
from sim_harness.studies.tosses.entries import Entry
from sim_harness.studies.tosses.flight import Flight
from sim_harness.studies.tosses.judge import loss, whole_errors
from sim_harness.studies.tosses.parameters import Identified
from sim_harness.studies.tosses.plan import BOUNDS, EVALUATIONS, EVERY

FIRST_STEP = 0.3
"""Edge of the first simplex of the Nelder-Mead method, in logarithms: 35 %."""

RESAMPLES, COVERED = 400, 0.95
"""Resamples of the tosses for the intervals, and the share of them that an interval holds."""

USED = 0.8
"""Share of the evaluated points, the best ones, to which the quadratic of the intervals is fitted. Fewer points lie too close
together: their range would bound the intervals."""

SEED = 0


class Trials(NamedTuple):
    """Evaluated points: logarithms of the parameters (k, p), and the loss of each toss (k, n)."""

    points: Array
    losses: Array


def identify(entry: Entry, flight: Flight, tosses: Sequence[Toss], evaluations: int = EVALUATIONS) -> Identified:
    """Return the best parameters of an engine and their intervals. tosses: all those for fits"""
    some = tosses[::EVERY]
    trials = search(lambda values: loss(whole_errors(entry.build(flight, values), some)), entry.parameters, evaluations)
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
    pick = np.random.default_rng(SEED).integers(0, trials.losses.shape[1], (RESAMPLES, trials.losses.shape[1]))
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
    low, high = x.min(axis=0), x.max(axis=0)
    return minimize(
        lambda at: slope @ at + 0.5 * at @ H @ at,
        np.zeros(p),
        jac=lambda at: slope + H @ at,
        bounds=np.column_stack([low, high]),
        method="L-BFGS-B",
    ).x
