"""The engine `dissipation`: optimality by an independent route, known answers, and predictions of the convex law."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast, full
from scipy.optimize import nnls
from test_engines import check_dynamics, random_problems

from idyn.status import Status
from sim_harness.engines.dissipation import Dissipation
from sim_harness.engines.engine import ForwardProblem
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller

DT = 1e-3


def pyramid_rows(mu):
    """|p_S| + |p_T| ≤ μ p_N and p_N ≥ 0 of one contact as rows ≥ 0, written down corner by corner."""
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    return np.array([[0, 0, 1], *([-s, -t, mu] for s, t in signs)] if np.isfinite(mu) else [[0, 0, 1]], dtype=float)


@every("name", ["quadruped", "solo12"])
def test_no_admissible_impulse_leaves_less_energy(name):
    """The energy's gradient, J v⁺ with the gap speeds, is a non-negative sum of the active constraints' normals: enough, as it
    is convex."""
    engine = Dissipation(recovery=0.1)
    for problem in random_problems(name, 200, infinite=True):
        solution = engine.solve(problem)
        check_dynamics(problem, solution)
        assert solution.status is Status.SOLVED
        assert solution.contact < 1e-10
        n, p = len(problem.mu), solution.p.ravel()
        u = problem.J @ solution.v_plus
        D = problem.J @ np.linalg.solve(problem.M, problem.J.T)
        u[2::3] += np.maximum(problem.gaps / DT, -0.1)
        slack = u[2::3]
        normals = [D[3 * i + 2] for i in np.flatnonzero(slack < 1e-9)]
        assert slack.min(initial=0) > -1e-9
        for i in range(n):
            rows = np.zeros((len(pyramid_rows(problem.mu[i])), 3 * n))
            rows[:, 3 * i : 3 * i + 3] = pyramid_rows(problem.mu[i])
            assert (rows @ p).min() > -1e-10
            normals += list(rows[rows @ p < 1e-10])
        _, distance = nnls(np.array(normals).reshape(-1, 3 * n).T, u)
        assert distance < 1e-7


def point_mass(v, mu):
    """A particle of 2 kg on the plane."""
    return ForwardProblem(
        M=2.0 * np.eye(3),
        h=np.array([0, 0, 2.0 * 9.81]),
        v=np.array(v),
        J=np.eye(3),
        force=np.zeros(3),
        mu=np.array([mu]),
        gaps=np.zeros(1),
        dt=DT,
    )


def test_a_sliding_particle_is_lifted_as_the_model_says():
    """p_N = m (μ u + g dt) / (1 + μ²): maximal dissipation pushes harder to rub harder."""
    mu, u = 0.4, 0.3
    solution = Dissipation().solve(point_mass([u, 0, 0], mu))
    normal = 2.0 * (mu * u + 9.81 * DT) / (1 + mu**2)
    np.testing.assert_allclose(solution.p, [[-mu * normal, 0, normal]], atol=1e-12)


def test_a_sticking_particle_stops_without_being_lifted():
    solution = Dissipation().solve(point_mass([0.001, 0.0005, 0], 0.8))
    np.testing.assert_allclose(solution.v_plus, 0, atol=1e-12)


def test_in_a_stance_the_ground_carries_the_weight(make_world, make_stand):
    world = make_world("dissipation")
    stand = make_stand(world)
    for _ in range(300):
        result = world.step(stand.torque(), DT)
        assert result.status.ok
    assert result.normal_force.sum() == pytest.approx(47.088, rel=1e-9)
    assert np.abs(world.v).max() < 1e-9


@full
@pytest.mark.parametrize("kind", first_is_fast(["sway", "squat"]))
def test_the_cone_law_predicts_this_engine_exactly(kind):
    """Both are cone complementarity: impulses and velocities of the one solve the other, as Coulomb's law and `lcp` do."""
    plan = load_plan("stand", 1.5)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, engine=Dissipation()))
    changes = {"law": "cone", "reference": {"kind": kind, "start": 0.2, "ramp": 0.3}}
    summary = run_in_process(with_controller(plan, changes), "cone", lambda *_: None).summary
    assert summary.upright
    assert summary.modes == {"ok": 1.0}
    assert summary.force_error_relative < 1e-6


@full
def test_the_convex_law_predicts_this_engine():
    """Swaying on four feet: the sum of the normal forces within 1.5 %; the law prescribes joints, the engine torques."""
    plan = load_plan("stand", 1.5)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, engine=Dissipation()))
    changes = {"law": "convex", "reference": {"kind": "sway", "start": 0.2, "ramp": 0.3}}
    summary = run_in_process(with_controller(plan, changes), "convex", lambda *_: None).summary
    assert summary.upright
    assert summary.modes == {"ok": 1.0}
    assert 0 < summary.force_error_relative < 0.015
