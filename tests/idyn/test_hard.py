"""Hard problems: every answer is certified by independent conditions, whatever the law, the state and the contacts. Random
states (`hard.wild_scene`), feet dragged apart (`hard.torn_scene`) and degenerate contacts (`hard.degenerate_scene`). `-m long`
runs 3000 and 10 000 of them and prints shares and times of every law."""

import time
from collections import Counter, defaultdict

import numpy as np
import pytest
import scipy.optimize
from conditions import allowance, coulomb_error, dynamics, law_error, outside_cone
from fast import every, first_is_fast
from hard import degenerate_scene, kind_of, torn_scene, wild_scene
from oracles import Full, convex_program, full
from scenes import DT, VARIANTS, each_walker, predict_scene, random_scenes, varied

from idyn import Ground, Options, make_law
from sim_harness.engines.engine import ForwardProblem
from sim_harness.engines.lcp import PolygonLcp

CONVEX = ("convex", "convex-one-stage", "convex-infinite", "cone", "cone-one-stage", "cone-infinite")
LAWS = ("no-slip", "coulomb", "exact-cone", *CONVEX)
GROUND = Ground.rigid()
OPTIONS = Options.paper(ground=GROUND)
EXACT = 1e-8  # largest error of an answer [N·s, N·m·s or m/s]


def answer_to(scene, law):
    return predict_scene(scene, law, OPTIONS)


def kinetic_error(f: Full, answer, q_ddot, mu, extra):
    """How far p is from least kinetic energy: what its gradient lacks to be a sum of active constraints' normals [m/s]."""
    qp = convex_program(f, q_ddot, DT, mu, extra)
    slack = qp.A @ answer.p - qp.lower
    near = slack <= 1e-7 * max(1.0, np.abs(answer.p).max(initial=0))
    gradient = qp.H @ answer.p + qp.f
    for i in np.flatnonzero(mu == 0):
        gradient[3 * i : 3 * i + 2] = 0
    if not near.any():
        return np.abs(gradient).max(initial=0)
    rows = qp.A[near] / np.linalg.norm(qp.A[near], axis=1, keepdims=True).clip(1e-300)
    return scipy.optimize.nnls(rows.T, gradient, maxiter=10_000)[1]


def error_of(scene, answer, edges=4):
    """Error of the answer under its own law: dynamics, demand, cone, non-penetration and the law's other conditions."""
    f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
    extra = allowance(c.gaps, DT, GROUND.noise, GROUND.recovery_speed)
    size = max(1.0, np.abs(f.M).max() * np.abs(f.v).max(initial=0))
    moved = np.abs(answer.v_plus[f.a] - f.v[f.a] - DT * scene.q_ddot).max()
    errors = [dynamics(f, answer.p, answer.v_plus, answer.tau, DT) / size, max(moved - answer.demand_change, 0.0)]
    mu = np.minimum(c.mu, 1.0) if "μ ≤ 1" in answer.rung else c.mu
    mu = np.where(mu > 0, np.inf, 0.0) if answer.law.endswith("infinite") else mu
    errors.append(law_error(answer.law, f, answer.p, answer.v_plus, mu, extra, edges))
    if answer.law.startswith(("convex", "cone")):
        errors += [outside_cone(answer.p, mu, edges), -(f.at_end(answer.v_plus)[2::3] + extra).min(initial=0)]
    if answer.law in ("convex", "convex-infinite") and answer.demand_change == 0.0:
        errors.append(kinetic_error(f, answer, scene.q_ddot, mu, extra))
    return max(errors)


def sweep(make, count, laws=LAWS, judged=True):
    """Shares, times [µs] by law, and answers beyond the force limit without a report."""
    shares, times, worst = defaultdict(Counter), defaultdict(list), defaultdict(float)
    for law in laws:
        solver = make_law(law)
        for seed in range(count, count + 40):  # kernels are compiled, caches filled
            answer_to(make(seed), solver)
        for seed in range(count):
            scene = make(seed)
            begin = time.perf_counter()
            answer = answer_to(scene, solver)
            times[law].append((time.perf_counter() - begin) * 1e6)
            shares[law]["last forces" if answer.rung == "last forces" else "own" if answer.status.ok else "another law"] += 1
            assert np.isfinite(answer.tau).all(), (law, seed)
            strongest = np.linalg.norm(answer.force, axis=1).max(initial=0) - 20.0 * scene.robot.weight
            assert answer.force_excess == pytest.approx(max(strongest, 0.0), rel=1e-9, abs=1e-6)
            most = scene.robot.limits.tau_max
            beyond = (np.abs(answer.tau) - most)[np.abs(answer.tau) > most * (1.0 + 1e-9)].max(initial=0.0)
            assert answer.torque_excess == pytest.approx(beyond, rel=1e-9, abs=1e-9)
            if judged and answer.rung != "last forces":
                error = error_of(scene, answer)
                assert error <= EXACT * max(1.0, np.abs(answer.p).max(initial=0)), (law, seed, answer.law, answer.rung)
                worst[law] = max(worst[law], error)
    print()
    for law in laws:
        p50, p99 = np.percentile(times[law], [50, 99])
        spent = f"p50 {p50:.0f} µs, p99 {p99:.0f} µs, max {max(times[law]):.0f} µs"
        print(f"{law:17} {dict(shares[law])}, worst {worst[law]:.1e}, {spent}")
    return shares


@every(("law", "edges"), [*(("coulomb", k) for k in (4, 6, 8)), ("cone", 4), ("cone", 8), ("exact-cone", 4)])
@every("variant", VARIANTS)
@pytest.mark.parametrize("n", [4, pytest.param(40, marks=pytest.mark.full)])
@each_walker
def test_laws_satisfy_their_conditions_at_all_kinds_of_contacts(name, n, variant, law, edges):
    """They answer themselves in every state of finite friction on four feet, and in nearly all of the harder ones, where Lemke
    may end on a ray, or infinite friction have no answer."""
    solver, own, count = make_law(law, **({} if law == "exact-cone" else {"edges": edges})), 0, n if edges == 4 else min(n, 12)
    for scene in varied(name, VARIANTS[variant], count):
        answer = answer_to(scene, solver)
        assert answer.status.certified
        assert error_of(scene, answer, edges if answer.status.ok else 4) <= EXACT * max(1.0, np.abs(answer.p).max(initial=0))
        own += answer.status.ok
    assert own >= (0.7 * count if variant in ("some unlimited", "all kinds") else count - 2 * (variant == "twelve points"))


@pytest.mark.parametrize("count", [*first_is_fast([12, 60], 0), pytest.param(3000, marks=pytest.mark.long)])
def test_every_law_answers_random_states(count):
    """Laws with finite friction answer nearly always themselves. With infinite friction some 6 % have no answer in which
    separating contacts carry no force (`test_polygon_laws` proves it, one by one), and Coulomb's law answers."""
    shares = sweep(wild_scene, count)
    for law in LAWS:
        own = shares[law]["own"] / count
        assert own >= (0.85 if law in ("no-slip", "cone-infinite") else 0.93 if law == "cone-one-stage" else 0.97), law
        assert shares[law]["last forces"] <= 0.001 * count


@pytest.mark.parametrize("count", [15, pytest.param(60, marks=pytest.mark.full), pytest.param(400, marks=pytest.mark.long)])
@every("law", ["no-slip", "coulomb", "exact-cone", "cone", "cone-infinite"])
def test_feet_that_are_dragged_apart_carry_no_large_forces(law, count):
    """Rest, infinite friction, demands of ±50 rad/s²: no kilonewtons, and no separating contact is held."""
    solver = make_law(law)
    for seed in range(count):
        scene = torn_scene(seed)
        answer = answer_to(scene, solver)
        f = full(scene.robot, scene.state, scene.contacts)
        parts = f.at_end(answer.v_plus)[2::3] > 1e-9
        sideways = np.abs(answer.p.reshape(-1, 3)[:, :2]).max(axis=1)
        assert answer.status.ok
        assert answer.force_excess == 0.0
        assert sideways[parts & (answer.p[2::3] <= 1e-9)].max(initial=0) <= EXACT


@pytest.mark.parametrize("count", [4, pytest.param(110, marks=pytest.mark.full), pytest.param(10_000, marks=pytest.mark.long)])
def test_every_law_answers_degenerate_contacts(count):
    shares = sweep(degenerate_scene, count, judged=count < 1000)
    for law in LAWS:
        assert shares[law]["last forces"] <= max(1, 0.001 * count), law


@pytest.mark.long
@every("make", [wild_scene, degenerate_scene])
def test_exact_cone_answers_ten_thousand_states(make):
    """Every answer is judged, degenerate ones too: the law's own or another's, certified, or the last forces by name."""
    shares = sweep(make, 10_000, laws=("exact-cone",))["exact-cone"]
    assert shares["own"] >= 9_700
    assert shares["last forces"] <= 10


def test_every_kind_of_degeneracy_is_generated():
    assert {kind_of(seed) for seed in range(11)} == {kind_of(seed) for seed in range(11, 22)}
    assert len({kind_of(seed) for seed in range(11)}) == 11


# -- random states in numbers, and the right inverse of an independent forward problem ---------------------------------


def simulated(f, answer, contacts):
    """The velocity of a time-stepping engine under the predicted torque: all joints free. Its law is at J v⁺."""
    force = np.zeros(len(f.v))
    force[f.a] = answer.tau
    problem = ForwardProblem(M=f.M, h=f.h, v=f.v, J=f.J, force=force, mu=contacts.mu, gaps=contacts.gaps, dt=DT)
    solution = PolygonLcp(recovery=np.inf).solve(problem)
    return solution.v_plus, solution.p.ravel()


@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.full), pytest.param(10_000, marks=pytest.mark.long)])
@every("touching", [0.0, 0.5])
@each_walker
def test_coulomb_is_a_right_inverse(name, touching, count):
    """(v⁺, p) solves the forward problem under τ in every state, by independent conditions. The forward solver finds that v⁺
    too, or another solution of the same problem: large friction coefficients allow two, more often where feet touch."""
    law, rungs, forward = make_law("coulomb"), Counter(), Counter()
    pressing = 0
    for scene in random_scenes(name, count, touching=touching):
        answer = predict_scene(scene, law, Options.paper())
        rungs[answer.law, answer.rung] += 1
        assert answer.status.ok
        assert (answer.law, answer.demand_change) == ("coulomb", 0)
        assert answer.residuals.worst <= EXACT
        f, c = full(scene.robot, scene.state, scene.contacts, dt=0.0), scene.contacts
        extra = allowance(c.gaps, DT)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) <= EXACT
        assert coulomb_error(f, answer.p, answer.v_plus, c.mu, extra) <= EXACT
        np.testing.assert_allclose(answer.v_plus[f.a], f.v[f.a] + DT * scene.q_ddot, atol=1e-12)
        pressing += answer.p[2::3].any()
        v_plus, p = simulated(f, answer, c)
        if np.abs(v_plus - answer.v_plus).max() <= 1e-7:
            forward["same"] += 1
            continue
        forward["another solution"] += 1
        assert c.mu.min() > 1
        assert dynamics(f, p, v_plus, answer.tau, DT) <= EXACT
        assert coulomb_error(f, p, v_plus, c.mu, extra) <= EXACT
    print(f"\ncoulomb, {name}, {touching:.0%} touching, {pressing} of {count} pressing: {dict(rungs + forward)}")
    assert forward["another solution"] <= (0.01 if touching == 0 else 0.035) * count + (2 if count < 1000 else 0)
    assert pressing > (0.01 if touching == 0 else 0.25) * count
