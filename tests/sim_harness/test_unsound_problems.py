"""Engines with non-finite data, and with distant constraints."""

import msgspec
import numpy as np
import pytest
from fast import every

from idyn.status import Status
from sim_harness.engines.engine import ForwardProblem, Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.engines.newton import Newton
from sim_harness.studies.newton_study import Scheme
from sim_harness.world.worlds import ENGINES

WEIGHT = 9.81


def resting(dt=1e-3, away=3.0, **rows):
    """1 kg at rest on the ground, pushed with 1 N, and an unconnected wheel with a stop at this distance [rad]."""
    J, G = np.eye(3, 4), np.eye(4)[3:]
    return ForwardProblem(
        M=np.eye(4),
        h=np.array([0.0, 0.0, WEIGHT, 0.0]),
        v=np.zeros(4),
        J=J,
        force=np.array([1.0, 0.0, 0.0, 0.0]),
        mu=np.array([0.5]),
        gaps=np.zeros(1),
        dt=dt,
        rows=Rows(G=G, g=np.array([away]), stops=np.array([True]), **rows),
    )


@every("engine", ENGINES)
@every("field", ["J", "v", "h", "force", "gaps", "mu"])
@every("value", [np.nan, -np.inf])
def test_non_finite_problems_are_never_solved(engine, field, value):
    problem = resting()
    broken = getattr(problem, field).copy()
    broken.flat[-1] = value
    solution = ENGINES[engine]().solve(msgspec.structs.replace(problem, **{field: broken}))
    assert not solution.status.ok


@every("engine", ["newton", "first-order", "lcp", "no-slip"])
@every("field", ["G", "g"])
def test_non_finite_rows_are_reported(engine, field):
    problem = resting()
    rows = msgspec.structs.replace(problem.rows, **{field: np.full_like(getattr(problem.rows, field), np.nan)})
    assert ENGINES[engine]().solve(msgspec.structs.replace(problem, rows=rows)).status is Status.NON_FINITE


@every("engine", [Newton(), Scheme(form="divided", damping=1.0), Scheme(), FirstOrder(stiffness=np.inf)])
@every("dt", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@every("away", [0.01, 3.0, 50.0])
def test_distant_stops_do_not_reduce_accuracy(engine, dt, away):
    """A stop 3 rad away at 1 ms does not count as 3000 rad/s: the contact beside it bears its weight."""
    solution = engine.solve(resting(dt, away))
    assert solution.status.ok
    np.testing.assert_allclose(solution.p[0] / dt, [-1.0, 0.0, WEIGHT], atol=1e-3)


@every("engine", [Newton(), FirstOrder(), FirstOrder(dissipation=0.5, stiffness=np.inf)])
def test_a_rigid_row_has_no_damping(engine):
    """τ_d belongs to compliant rows: it does not change a rigid stop."""
    arriving = resting(away=0.1)
    arriving = msgspec.structs.replace(arriving, v=np.array([0.0, 0.0, 0.0, 1.0]))
    told = msgspec.structs.replace(arriving.rows, compliance=np.zeros(1), dissipation=np.array([0.5]))
    for problem in (arriving, msgspec.structs.replace(arriving, rows=told)):
        assert engine.solve(problem).v_plus[3] == pytest.approx(1.0, abs=1e-12)
