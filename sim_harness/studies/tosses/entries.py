"""The engines of the comparison: their parameters, and their forecasts with given values."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import NamedTuple

from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import Engine
from sim_harness.engines.first_order.engine import FirstOrder
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton.engine import Newton
from sim_harness.engines.no_slip import NoSlip
from sim_harness.engines.penalty import Penalty
from sim_harness.engines.sap.engine import Sap
from sim_harness.engines.viscous import Viscous
from sim_harness.studies.tosses.flight import Flight
from sim_harness.studies.tosses.forecast import Contact, EngineForecaster
from sim_harness.studies.tosses.judge import Forecaster

SUBSTEPS = 4
"""Steps per sample of compliant engines: 1.7 ms. Rigid engines gain nothing by more than one step, 6.8 ms."""

EDGES = 16
"""Corners of friction polygons."""

Values = Mapping[str, float]
"""Parameter → value."""

RIGID, SOFT = ("mu", "inertia", "restitution"), ("mu", "inertia", "stiffness", "dissipation")


class Entry(NamedTuple):
    """An engine with its parameters.

    parameters: names, rows of `plan.BOUNDS`
    build: returns the forecaster of a body with the values of the parameters
    """

    parameters: tuple[str, ...]
    build: Callable[[Flight, Values], Forecaster]


def _rigid(engine: Callable[[float], Engine]) -> Entry:
    """engine: returns the engine with a coefficient of restitution"""

    def build(flight: Flight, values: Values) -> Forecaster:
        block = flight.block(values["inertia"])
        return EngineForecaster(block, engine(values["restitution"]), Contact(values["mu"]), 1)

    return Entry(RIGID, build)


def _soft(engine: Engine) -> Entry:
    def build(flight: Flight, values: Values) -> Forecaster:
        contact = Contact(values["mu"], values["stiffness"], values["dissipation"])
        return EngineForecaster(flight.block(values["inertia"]), engine, contact, SUBSTEPS)

    return Entry(SOFT, build)


def _no_slip(flight: Flight, values: Values) -> Forecaster:
    return EngineForecaster(flight.block(values["inertia"]), NoSlip(), Contact(1.0), 1)


def _viscous(flight: Flight, values: Values) -> Forecaster:
    return EngineForecaster(flight.block(values["inertia"]), Viscous(coefficient=values["drag"]), Contact(1.0), 1)


def _drake(flight: Flight, values: Values) -> Forecaster:
    from sim_harness.studies.tosses.drake_block import DrakeForecaster  # noqa: PLC0415 - an optional package

    contact = Contact(values["mu"], values["stiffness"], values["dissipation"])
    return DrakeForecaster(flight.block(values["inertia"]), contact)


def _mujoco(flight: Flight, values: Values) -> Forecaster:
    from sim_harness.studies.tosses.mujoco_block import MujocoForecaster  # noqa: PLC0415 - an optional package

    solref = (values["time_constant"], values["damping_ratio"])
    return MujocoForecaster(flight.block(values["inertia"]), values["mu"], solref)


ENTRIES = {
    "newton": _soft(Newton()),
    "sap": _soft(Sap()),
    "first-order": _soft(FirstOrder(candidates="touching")),
    "penalty": _soft(Penalty()),
    "newton-rigid": _rigid(lambda e: Newton(restitution=e)),
    "lcp": _rigid(lambda e: PolygonLcp(edges=EDGES, restitution=e)),
    "dissipation": _rigid(lambda e: Dissipation(edges=EDGES, restitution=e)),
    "viscous": Entry(("inertia", "drag"), _viscous),
    "no-slip": Entry(("inertia",), _no_slip),
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
