"""The engine `sap`: its cone, its solver and reported errors, its schemes, and the law `sap` in its world; the study."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import scs
from fast import every, full
from problems import DT, Body, G, cube, near, point_mass, random_problems, step_problem
from scipy import sparse

from controllers.robot.load import load_robot
from idyn.contact.ground import Ground
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.laws import SapSettings
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.status import Status
from sim_harness.commands.main import main
from sim_harness.engines.engine import Springs
from sim_harness.engines.sap import SCHEMES, Sap, constraint_laws, free_motion
from sim_harness.engines.sap_newton import (
    APART,
    MU,
    R_N,
    R_T,
    SLIDING,
    STICKING,
    V_HAT,
    Motion,
    Rules,
    convex_problem,
    minimise,
    project_cone,
)
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.studies import sap_study
from sim_harness.studies.sap_study import Pile
from sim_harness.world.worlds import build_world

TIGHT = Rules(1e-13, 100)


def random_convex(rng, nv=12, k=5):
    """A problem of k contacts in which all regions occur: it, A, J, a start."""
    B = rng.normal(size=(nv, nv))
    A = B @ B.T / nv + np.eye(nv)
    J = rng.normal(size=(3 * k, nv))
    laws = np.zeros((k, 4))
    laws[:, MU] = rng.uniform(0.1, 1.5, k)
    laws[:, R_N] = 10 ** rng.uniform(-1, 0.5, k)
    laws[:, R_T] = laws[:, R_N] * 10 ** rng.uniform(-1, 0.3, k)
    laws[:, V_HAT] = rng.normal(size=k)
    v_star = 2 * rng.normal(size=nv)
    return convex(A, J, laws, v_star), A, J, 2 * rng.normal(size=nv)


def convex(A, J, laws, v_star, M=None):
    """All of it as one problem, in the order it has."""
    M, n = A if M is None else M, len(v_star)
    motion = Motion(M, M, np.zeros(n, dtype=np.int64), A, v_star, v_star)
    return convex_problem(motion, J, laws, np.arange(n), np.arange(len(laws)))


def nearest_in_cone(y, law):
    """P_F(y) by the Euclidean projection on the cone of friction μ̃ in coordinates R^½ γ  [SAP App. C]."""
    root = np.sqrt(np.array([law[R_T], law[R_T], law[R_N]]))
    x, steep = root * y, law[MU] * np.sqrt(law[R_T] / law[R_N])
    radius = np.linalg.norm(x[:2])
    if radius <= steep * x[2]:
        return np.array(y)
    if steep * radius <= -x[2]:
        return np.zeros(3)
    edge = np.array([*(steep * x[:2] / radius), 1.0]) / np.sqrt(1 + steep * steep)
    return (x @ edge) * edge / root


def random_law(rng):
    return np.array([rng.choice([0.0, rng.uniform(0, 2)]), *(10 ** rng.uniform(-3, 1, 2)), 0.0])


def test_the_projection_solves_its_variational_inequality():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(10_000):
        law, y = random_law(rng), rng.normal(size=3)
        *gamma, region = project_cone(*y, law)
        gamma = np.array(gamma)
        z = np.array([law[R_T], law[R_T], law[R_N]]) * (y - gamma)
        size = np.abs(y).max() * max(1.0, law[R_T], law[R_N]) * max(1.0, law[MU])
        assert np.linalg.norm(gamma[:2]) <= law[MU] * gamma[2] + 1e-14 * size
        assert law[MU] * np.linalg.norm(z[:2]) + z[2] <= 1e-14 * size
        assert abs(z @ gamma) <= 1e-14 * size * max(1.0, np.abs(y).max())
        np.testing.assert_allclose(gamma, nearest_in_cone(y, law), atol=1e-12 * size)
        seen.add(region)
    assert seen == {APART, STICKING, SLIDING}


def conic_oracle(A, J, laws, v_star):
    """γ of the dual (22) by an operator-splitting method on second-order cones."""
    R = np.repeat(laws[:, R_N], 3)
    R[0::3] = R[1::3] = laws[:, R_T]
    v_hat = np.zeros(len(R))
    v_hat[2::3] = laws[:, V_HAT]
    P = sparse.csc_matrix(np.triu(J @ np.linalg.solve(A, J.T) + np.diag(R)))
    cone = np.zeros((len(R), len(R)))
    for i, mu in enumerate(laws[:, MU]):  # (μ γ_n, γ_s, γ_t) is in the second-order cone
        cone[3 * i, 3 * i + 2], cone[3 * i + 1, 3 * i], cone[3 * i + 2, 3 * i + 1] = -mu, -1.0, -1.0
    data = {"P": P, "A": sparse.csc_matrix(cone), "b": np.zeros(len(R)), "c": J @ v_star - v_hat}
    answer = scs.SCS(data, {"q": [3] * len(laws)}, eps_abs=1e-9, eps_rel=0, verbose=False).solve()
    assert answer["info"]["status"] == "solved"
    return answer["x"].reshape(-1, 3)


def test_the_dual_program_has_the_same_impulses():
    rng = np.random.default_rng(2)
    for _ in range(100):
        c, A, J, v = random_convex(rng, k=int(rng.integers(1, 7)))
        _, gamma, status, _ = minimise(c, v, TIGHT)
        assert status == 0
        oracle = conic_oracle(A, J, c.laws, c.v_star)
        np.testing.assert_allclose(gamma, oracle, atol=1e-6 * max(1.0, np.abs(oracle).max()))


def parts(engine, problem):
    """The free motion, J and laws of a step."""
    motion, _ = free_motion(problem, engine.scheme)
    J, materials, _ = engine.constraints(problem)
    return motion, J, constraint_laws(J, motion.L, motion.first, materials)


def test_reported_errors_match_a_recomputation():
    engine = Sap(tolerance=1e-3)
    for problem in random_problems("quadruped", 40):
        solution = engine.solve(problem)
        _, J, laws = parts(engine, problem)
        v, gamma = solution.v_plus, solution.p[problem.gaps <= 0]
        D = 1 / np.sqrt(np.diag(problem.M))
        free = problem.v + np.linalg.solve(problem.M, DT * (problem.force - problem.h))
        rest = problem.M @ (v - free) - J.T @ gamma.ravel()
        scale = max(np.linalg.norm(D * (problem.M @ v)), np.linalg.norm(D * (J.T @ gamma.ravel())))
        assert solution.accuracy.momentum == pytest.approx(np.linalg.norm(D * rest) / scale, rel=1e-9, abs=1e-12)
        R, v_hat = laws[:, [1, 1, 2]], np.outer(laws[:, 3], [0, 0, 1])
        g = (J @ v).reshape(-1, 3) - v_hat + R * gamma
        total = 0.5 * (v - free) @ problem.M @ (v - free) + 0.5 * (R * gamma * gamma).sum()
        slack = np.abs((g * gamma).sum(axis=1)).mean() / total if len(gamma) else 0.0
        assert solution.accuracy.slackness == pytest.approx(slack, abs=1e-12)


@every("sigma", [1e-6, 1e-1])
@every("stiffness", [1e3, np.inf])
@every("candidates", ["touching", "near"])
def test_random_states_of_a_robot_are_all_solved(stiffness, sigma, candidates):
    for problem in random_problems("quadruped", 60, infinite=True):
        solution = Sap(stiffness=stiffness, sigma=sigma, candidates=candidates).solve(problem)
        assert solution.status.ok
        assert solution.iterations <= 40


def test_a_step_that_does_not_converge_is_reported():
    problem = list(random_problems("quadruped", 8))[7]
    assert Sap(max_iterations=1, tolerance=1e-14).solve(problem).status is Status.NOT_CERTIFIED


W = 1 / np.sqrt(3)
"""w of a free point of 1 kg [1/kg]"""


def test_the_estimate_of_w_matches_its_definition():
    for m in (1.0, 2.0):
        assert parts(near(), point_mass(m).problem(DT))[2][0, R_T] == pytest.approx(1e-3 * W / m, rel=1e-12)
    np.testing.assert_allclose(parts(near(), cube().problem(DT))[2][:, R_T] / 1e-3, 2.61406, rtol=2e-6)


def test_stiffness_is_limited_to_what_the_step_resolves():
    tau, beta = 1e-3, 1.3
    crossover = 4 * np.pi**2 / (beta**2 * W * DT * (DT + tau))
    for k in np.logspace(2, 14, 49):
        R_n = parts(near(stiffness=k, dissipation=tau, beta=beta), point_mass().problem(DT))[2][0, R_N]
        rigid, soft = beta**2 * W / (4 * np.pi**2), 1 / (DT * k * (DT + tau))
        assert R_n == pytest.approx(rigid if k > crossover else soft, rel=1e-12)


def test_separating_contacts_do_not_adhere():
    """A separating body is released once −φ < τ_d v_n at the end of the step; before, the damper reduces the spring's force."""
    engine = near(stiffness=1e4, dissipation=5e-3)
    for speed, depth in np.random.default_rng(15).uniform((0.05, 1e-4), (1.0, 6e-3), (400, 2)):
        body = point_mass(mu=0.0)
        body.h[:], body.q[2], body.v[2] = 0.0, -depth, speed
        free = depth - DT * speed < 5e-3 * speed
        solution = body.step(engine, DT)
        assert (solution.p[0, 2] == 0.0) == free
        assert solution.p[0, 2] >= 0.0


def test_a_gear_yields_by_its_load():
    """Two joints geared one to two, a weight on the first: the error of the gear stays below R times the load."""
    body = Body(np.eye(2), np.array([G, 0.0]), np.zeros((0, 2)), lambda _: np.zeros(0), [])
    body.rows = np.array([[1.0, -2.0]]), np.array([False])
    for _ in range(500):
        before = body.q
        solution = body.step(Sap(), DT)
    G_row, load = np.array([1.0, -2.0]), abs(solution.rows[0])
    assert load > 0.0
    R = 1 / (4 * np.pi**2) * 5.0
    tau = DT / np.pi
    assert abs(G_row @ before + (DT + tau) * G_row @ body.v) <= (DT + tau) * R * load * (1 + 1e-6)
    assert abs(G_row @ body.q) < 1e-5


class Moving:
    """A robot's terms at other configurations."""

    def __init__(self, robot, q):
        self.robot, self.q = robot, q

    def terms(self, shift, v):
        terms = self.robot.terms(self.robot.integrate(self.q, shift), v)
        return terms.M.copy(), terms.h.copy()


def swinging(seed, dt=DT):
    """The quadruped in the air with springs and dampers in its joints: a problem without contacts, and its robot and q."""
    robot, q = load_robot("quadruped")
    rng = np.random.default_rng(seed)
    q, v = robot.integrate(q, 0.2 * rng.normal(size=robot.nv)), rng.normal(size=robot.nv)
    terms = robot.terms(q, v)
    on = np.r_[np.zeros(6), np.ones(12)]
    force = on * rng.normal(size=robot.nv)
    springs = Springs(stiffness=50.0 * on, damping=0.2 * on, stretch=0.1 * on * rng.normal(size=robot.nv))
    problem = step_problem(terms.M, dt=dt, h=terms.h.copy(), v=v, force=force, springs=springs, system=Moving(robot, q))
    return problem, robot, q


@every("seed", range(5))
def test_without_contacts_a_step_is_an_euler_step_of_forward_dynamics(seed):
    problem, robot, q = swinging(seed)
    s = problem.springs
    tau = problem.force - s.stiffness * s.stretch - s.damping * problem.v
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    acceleration = pin.aba(model, model.createData(), q, problem.v, tau)
    np.testing.assert_allclose(Sap().solve(problem).v_plus, problem.v + DT * acceleration, rtol=1e-12, atol=1e-12)


def momentum(problem, name, v):
    """m(v) of (14), from the problem's own system."""
    theta, theta_vq = SCHEMES[name]
    a, s, dt = problem, problem.springs, problem.dt
    shift = theta * dt * (theta_vq * v + (1 - theta_vq) * a.v)
    middle = theta * v + (1 - theta) * a.v
    M, h = a.system.terms(shift, middle)
    return M @ (v - a.v) - dt * (a.force - h - s.stiffness * (s.stretch + shift) - s.damping * middle)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_the_slope_of_the_momentum_to_first_order(scheme):
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        problem, _, _ = swinging(9, dt)
        motion, found = free_motion(problem, scheme)
        assert found
        assert np.abs(momentum(problem, scheme, motion.v_star)).max() < 1e-12
        up, down = (np.array([momentum(problem, scheme, motion.v_star + h * e) for e in np.eye(18)]).T for h in (1e-4, -1e-4))
        errors.append(np.abs((up - down) / 2e-4 - motion.A).max())
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2.0, atol=0.2)


@every("scheme", ["implicit", "midpoint"])
def test_A_is_exact_for_a_constant_mass_matrix(scheme):
    """(16) with θ_vq once, not twice as printed."""
    body = point_mass().spring([1e4, 2e4, 3e4], damping=50.0)
    body.q[2] = 1.0
    problem = body.problem(0.01)
    A, v = free_motion(problem, scheme)[0].A, np.zeros(3)
    slope = np.array([momentum(problem, scheme, v + e) - momentum(problem, scheme, v) for e in np.eye(3)]).T
    np.testing.assert_allclose(slope, A, atol=1e-9)


def test_implicit_schemes_need_the_bodies_at_other_configurations():
    problem = next(random_problems("quadruped", 1))
    with pytest.raises(ConfigError, match=r"engine\.scheme: expected 'symplectic' or 'explicit' .* got 'midpoint'"):
        Sap(scheme="midpoint").solve(problem)


def test_dampers_folded_into_the_problem_are_kept():
    """A damper folded into M and force acts alike under every scheme if no other force depends on the velocity."""
    body = point_mass()
    body.q[2], body.v[0] = 1.0, 2.0
    problem = body.problem(0.01)
    damped = msgspec.structs.replace(problem, M=problem.M + 0.01 * 30.0 * np.eye(3), force=problem.force - 30.0 * problem.v)
    for scheme in SCHEMES:
        assert Sap(scheme=scheme).solve(damped).v_plus[0] == pytest.approx(2.0 / 1.3, rel=1e-12)


@full
@pytest.mark.parametrize(("scheme", "order", "most"), [("symplectic", 1, 0.03), ("midpoint", 2, 1e-4)])
def test_a_spinning_block_flies_straight_up_to_the_schemes_error(make_block, scheme, order, most):
    """1 m/s and 10 rad/s for a second; velocities are in body axes, which turn meanwhile."""
    errors = []
    for dt in (DT, DT / 2):
        world = make_block("sap", scheme=scheme)
        world.reset(world.q + np.r_[0, 0, 50.0, np.zeros(4)], np.array([1.0, 0, 0, 0, 0, 10.0]))
        for _ in range(round(1 / dt)):
            world.step(np.zeros(0), dt)
        errors.append(np.hypot(world.q[0] - 1.0, world.q[1]))
    assert errors[0] < most
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


GROUNDS = {
    "shipped": {},
    "soft": {"stiffness": 2e3, "dissipation": 0.05},
    "rigid": {"stiffness": np.inf, "dissipation": DT},
    "creeping": {"sigma": 0.1, "beta": 3.0},
    "near": {"candidates": "near", "dissipation": 0.02},
}


@every("ground", GROUNDS)
@every("name", ["solo12", "quadruped", "go2"])
def test_random_motion_has_the_predicted_forces(name, ground):
    """50 steps of random demands from a drop on, each torque applied in the world: forces to 1e-9 of the largest, velocities
    to 1e-9."""
    robot, stance = load_robot(name)
    rng = np.random.default_rng(0)
    world = build_world(Sap(tolerance=1e-12, **GROUNDS[ground]), robot, Flat(), stance)
    world.reset(stance, 0.1 * rng.normal(size=robot.nv))
    law = SapSettings(**GROUNDS[ground], drift=False).build()
    options, pressed = Options.paper(ground=Ground.rigid(noise=0.0)), 0
    for _ in range(50):
        demand = rng.normal(scale=20.0, size=robot.na)
        answer = predict(robot, world.state, world.contacts, demand, law=law, dt=DT, options=options)
        assert answer.law == "sap"
        assert answer.status.ok
        result = world.step(answer.tau, DT)
        assert result.status.ok
        largest = np.abs(result.force).max(initial=1.0)
        np.testing.assert_allclose(answer.normal_force, result.normal_force, atol=1e-9 * largest)
        np.testing.assert_allclose(answer.impulse, result.impulse, atol=1e-9 * DT * largest)
        np.testing.assert_allclose(answer.v_plus, world.v, atol=1e-9)
        pressed += (result.normal_force > 0.1).sum()
    assert pressed > 20


@pytest.fixture(scope="module")
def sway_runs():
    plan = load_plan("sway-springs", 1.5)
    return [
        run_in_process(with_controller(plan, {"law": law}), str(i), lambda *_: None) for i, law in enumerate(plan.settings.laws)
    ]


@full
def test_with_the_floors_parameters_sap_predicts_forces_within_one_per_cent(sway_runs):
    """Every component of every foot's force in 99 of 100 ticks, relative to a fourth of the weight; the sum to 0.2 % in all but
    1 %. The rigid law with T_r, T_p predicts the sum as well and the single forces not."""
    weight = 4.8 * 9.81  # [N]
    for run, springs in zip(sway_runs, (False, True), strict=True):
        predicted, simulated = np.nan_to_num(run.trace.predicted[50:]), np.nan_to_num(run.trace.simulated[50:])
        assert run.summary.upright
        assert run.summary.tilt < 5e-3
        total = np.abs((predicted - simulated)[:, :, 0].sum(axis=1)) / weight
        each = np.abs(predicted - simulated).max(axis=(1, 2)) / weight
        assert np.percentile(total, 99) < 2e-3
        if springs:
            assert np.percentile(each, 99) < 1e-2
            assert run.summary.modes == {"ok": 1.0}


@full
def test_the_page_has_its_tables_and_pictures(tmp_path, monkeypatch, capsys):
    few = np.arange(1.0, 9.0)
    monkeypatch.setattr(
        sap_study, "pile", lambda _: Pile(t=few, iterations=few, momentum=1e-6 / few, contacts=few, seconds=few)
    )
    monkeypatch.setattr(sap_study, "LONG_S", 2.0)
    monkeypatch.setattr(sap_study, "ORDER_S", 1.0)
    assert main(["compare", "sap-study", "--out", str(tmp_path)]) == 0
    assert {"schemes.png", "clutter.png", "report.html"} == {path.name for path in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    assert "midpoint" in printed
    assert "order" in printed
