"""The laws with polygons: conditions over random states, brute force, an independent Lemke, programs in velocities."""

from types import SimpleNamespace

import msgspec
import numpy as np
import oracles
import pytest
import scenes
from conditions import allowance, coulomb_error, dynamics, no_slip_error, outside_cone
from fast import every, fast, first_is_fast
from oracles import eliminate, full, lcp_error, outcome, solve_qp, solve_semidefinite_qp
from quantecon.optimize.lcp_lemke import lcp_lemke
from rungs import attempts
from scenes import DT, LITERAL, PLAIN, VARIANTS, each_walker, predict_scene, random_scene, random_scenes, varied

from idyn import LAWS, ConfigError, Consistency, Options, Selection, make_law
from idyn.laws.convex import Convex
from idyn.laws.coulomb import Coulomb, assemble
from idyn.solvers.lemke import lemke
from idyn.solvers.qp import backends
from idyn.status import STATUSES, Status
from idyn.terms.reduction import Reduced

LAW = make_law("no-slip")
OPTIONS = Options.paper(selection=Selection.OFF, ground=LITERAL)
TRIED = {name: VARIANTS[name] for name in ("few feet", "twelve points", "some frictionless")} | {"slabs": (4, (0.0, np.inf))}


def coulomb(scene, edges=4, options=PLAIN, **changes):
    return predict_scene(scene, make_law("coulomb", edges=edges), options, **changes)


def assembled(scene, edges=4):
    """The LCP of [ZD §5] from the elimination of the full system."""
    f = full(scene.robot, scene.state, scene.contacts)
    D, b, _, _ = eliminate(f, scene.q_ddot, DT)
    b[2::3] += allowance(scene.contacts.gaps, DT)
    return f, *oracles.coulomb_lcp(D, b, scene.contacts.mu, edges)


@each_walker
def test_lemke_alone_solves_feet_with_many_points(name):
    """Redundant points leave a ray at which the artificial variable is zero up to rounding: that is a solution."""
    directions = make_law("coulomb").directions
    for scene in varied(name, VARIANTS["twelve points"], 120):
        r, _ = scenes.reduced(scene)
        M, q, _, _ = assemble(r.Y, r.b, r.mu, directions, 0.0)
        z, status, _, _ = lemke(M, q, 1000, np.ones(len(q)))
        assert STATUSES[status] is Status.SOLVED
        assert lcp_error(M, q, z) < 1e-9


@pytest.mark.parametrize(("count", "of"), first_is_fast([(60, {"n": 1}), (4, {"n": 2, "touching": 1.0, "mu": 0.6})], 0))
@each_walker
def test_the_prediction_is_one_of_the_solutions_of_brute_force(name, count, of):
    """All 2⁶ complementary bases of one contact, 2¹² of two; several solutions may exist."""
    for scene in random_scenes(name, count, **of):
        f, M, q, G = assembled(scene)
        velocities = [outcome(f, scene.q_ddot, DT, G @ z)[0] for z in oracles.enumerate_lcp(M, q)]
        answer = coulomb(scene)
        assert velocities
        assert min(np.abs(v - answer.v_plus).max() for v in velocities) < 1e-9


def test_the_circumscribed_polygon_encloses_the_cone():
    scene = random_scene("solo12", 1, n=2, mu=0.1, touching=1.0)
    for edges in (4, 8):
        answer = predict_scene(scene, Coulomb(edges, circumscribed=True))
        friction = np.hypot(answer.p[::3], answer.p[1::3]) / answer.p[2::3]
        assert answer.status.ok
        assert 0.1 - 1e-12 <= friction.max() <= 0.1 / np.cos(np.pi / edges) + 1e-12


@every("n", [1, 4, 20])
def test_boxes_are_solved_with_the_smallest_impulses_that_hold(n):
    """Points of a slab that falls: at once, or each by itself with any μ. Without sliding the loaded points have the smallest
    impulses that stop it; a warm start confirms them to the last bit."""
    held, law, reach = 0, Coulomb(circumscribed=n == 4), np.sqrt(2) if n == 4 else 1.0
    for seed in range(30):
        rng, mu = np.random.default_rng([seed, n]), np.ones(n)
        rows = [[[1, 0, 0, 0, 0.3, y], [0, 1, 0, -0.3, 0, -x], [0, 0, 1, -y, x, 0]] for x, y in rng.uniform(-1, 1, (n, 2))]
        Y = np.reshape(rows, (3 * n, 6))
        b = Y @ (0.1 * (1 + seed % 3) * rng.normal(size=6) - [0, 0, 1, 0, 0, 0])
        if seed % 2:
            mu, b = rng.choice([0.0, 0.3, 1.0], n), rng.normal(size=3 * n)
        problem = Reduced(Y=Y, b=b, energy=b, mu=mu)
        rung, found = next(attempts(law, problem, None))
        again, other = next(attempts(law, problem, found.basis))
        assert (rung, found.status, again, other.status, other.iterations) == ("cold", 0, "warm", 0, 0)
        np.testing.assert_array_equal(other.p, found.p)
        slab = SimpleNamespace(at_end=lambda p, Y=Y, b=b: Y @ (Y.T @ p) + b)
        assert coulomb_error(slab, found.p, found.p, reach * mu, np.zeros(n)) < 1e-9
        s, t, load = found.p.reshape(-1, 3).T
        if (abs(s) + abs(t) < reach * mu * load)[load > 0].all():
            loaded, held = np.repeat(load > 0, 3), held + 1
            np.testing.assert_allclose(found.p[loaded], np.linalg.pinv(Y[loaded].T) @ Y.T @ found.p, atol=1e-7)
    assert held > 0


def test_the_answer_scales_with_units_of_mass_and_time():
    """The law normalises: a problem a million times lighter or heavier, or slower, has the same answer in its units."""
    rng = np.random.default_rng(0)
    Y, b, law = rng.normal(size=(12, 6)), rng.normal(size=12), make_law("coulomb")
    plain = Reduced(Y=Y, b=b, energy=b, mu=np.full(4, 0.5))
    _, expected = next(attempts(law, plain, None))
    for mass, speed in ((1e-6, 1), (1e6, 1), (1, 1e-6), (1e6, 1e-3)):
        _, solution = next(attempts(law, Reduced(Y=Y / np.sqrt(mass), b=speed * b, energy=speed * b, mu=plain.mu), None))
        np.testing.assert_allclose(solution.p / (mass * speed), expected.p, atol=1e-10)


@each_walker
def test_coulomb_agrees_with_an_independent_lemke(name):
    """Where the oracle finds another velocity, there are two solutions; that must be rare."""
    compared = different = 0
    for scene in random_scenes(name, 120):
        f, M, q, G = assembled(scene)
        oracle = lcp_lemke(M, q)
        if not oracle.success or lcp_error(M, q, oracle.z) > 1e-9:
            continue
        compared += 1
        v, tau = outcome(f, scene.q_ddot, DT, G @ oracle.z)
        answer = coulomb(scene)
        if np.abs(answer.v_plus - v).max() > 1e-8:
            different += 1
            assert coulomb_error(f, answer.p, answer.v_plus, scene.contacts.mu, allowance(scene.contacts.gaps, DT)) < 1e-9
        elif scene.contacts.keys[1:] == ():  # one foot: the impulse is determined too
            np.testing.assert_allclose(answer.tau, tau, atol=1e-6)
    assert compared > 100
    assert different <= 2


def no_slip(scene, options=OPTIONS, **changes):
    return predict_scene(scene, LAW, options, **changes)


def answered(name, variant, count):
    """Scenes with the law's answers. Where it has none, no choice of held contacts has one: a program tries all of them."""
    without = 0
    for scene in varied(name, TRIED[variant], count):
        answer = no_slip(scene)
        if answer.status is Status.OTHER_LAW:
            without += 1
            f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
            D, b, _, _ = eliminate(f, scene.q_ddot, DT)
            b[2::3] += allowance(c.gaps, DT)
            assert len(c) > 4 or not oracles.no_slip_is_possible(D, b, c.mu)
            continue
        assert (answer.law, answer.status.name) == ("no-slip", "SOLVED")
        yield scene, answer
    assert without <= (0.1 if TRIED[variant][0] == 1 else 0.15) * count


def least_motion(f, answer, contacts):
    """min ½‖v_u − v_u⁰‖²_M  s.t.  u_N ≥ −φ/dt everywhere and u_T = 0 at the contacts that the answer holds; the joints
    as the answer has them. The no-slip law is the optimality condition of this program."""
    u, a = f.u, f.a
    q_ddot = (answer.v_plus[a] - f.v[a]) / DT
    free = eliminate(f, q_ddot, DT)[2]
    slip = np.abs(f.at_end(answer.v_plus).reshape(-1, 3)[:, :2]).max(axis=1, initial=0)
    rows = np.repeat((contacts.mu > 0) & (slip < 1e-9), 3) & np.tile([True, True, False], len(contacts))
    given, extra = f.Ja @ free[a] + f.drift, allowance(contacts.gaps, DT)
    M = f.M[np.ix_(u, u)]
    free[u] = solve_qp(M, -M @ free[u], f.Ju[2::3], -extra - given[2::3], f.Ju[rows], -given[rows])
    return free


@every("variant", fast(TRIED, "few feet"))
@each_walker
def test_no_slip_satisfies_its_conditions_and_is_the_least_motion_that_holds_the_feet(name, variant):
    for scene, answer in answered(name, variant, 60):
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
        assert no_slip_error(f, answer.p, answer.v_plus, c.mu, allowance(c.gaps, DT)) < 1e-8
        assert np.abs(answer.v_plus[f.a] - f.v[f.a] - DT * scene.q_ddot).max() <= answer.demand_change + 1e-15
        np.testing.assert_allclose(answer.v_plus, least_motion(f, answer, c), atol=1e-8)


@each_walker
def test_the_tangent_basis_does_not_matter_for_standing_feet(name):
    rng = np.random.default_rng(0)
    options = msgspec.structs.replace(OPTIONS, consistency=Consistency.HOLD)
    for seed in range(60):
        scene = random_scene(name, seed, touching=1.0, n=4)
        turned = scenes.turned(scene.contacts, rng.uniform(0, 2 * np.pi, 4))
        answer, other = (no_slip(scene, options, contacts=c, q_ddot=0.1 * scene.q_ddot) for c in (scene.contacts, turned))
        np.testing.assert_allclose(other.v_plus, answer.v_plus, atol=1e-8)


def test_lifted_feet_swing_freely_and_standing_feet_hold():
    """One foot 2 mm up with its own demand, three feet loaded: the demand is unchanged."""
    scene = scenes.standing_scene("solo12")
    gaps, q_ddot = np.array([0.002, 0, 0, 0]), np.zeros(12)
    q_ddot[:3] = [5, -20, 30]
    answer = no_slip(scene, contacts=msgspec.structs.replace(scene.contacts, gaps=gaps), q_ddot=q_ddot)
    slip = np.linalg.norm(full(scene.robot, scene.state, scene.contacts).at_end(answer.v_plus).reshape(-1, 3)[:, :2], axis=1)
    assert answer.demand_change == 0
    assert slip[0] > 1e-3
    assert slip[1:].max() < 1e-9
    assert not answer.p[:3].any()
    assert answer.normal_force.sum() == pytest.approx(scene.robot.total_mass * 9.81, rel=0.05)


def program(scene, edges=4, mu=None):
    f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
    return f, oracles.convex_program(f, scene.q_ddot, DT, c.mu if mu is None else mu, allowance(c.gaps, DT), edges)


@pytest.mark.parametrize("edges", first_is_fast([4, 8]))
@every("variant", first_is_fast(("few feet", "twelve points", "all kinds")))
@each_walker
def test_convex_has_the_least_kinetic_energy(name, variant, edges):
    """Its velocity is the optimum's, which is unique; it keeps every constraint; no other admissible p has less energy."""
    for scene in varied(name, VARIANTS[variant], 40 if variant == "few feet" else 12):
        answer = predict_scene(scene, make_law("convex", edges=edges))
        assert (answer.law, answer.status.name) == ("convex", "SOLVED")
        f, qp = program(scene, edges)
        p = solve_semidefinite_qp(qp.H, qp.f, qp.A, qp.lower)
        energy, least = (x @ qp.H @ x / 2 + qp.f @ x for x in (answer.p, p))
        assert energy <= least + 1e-9
        np.testing.assert_allclose(answer.v_plus, qp.v0 + qp.V @ p, atol=1e-7)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
        assert (f.at_end(answer.v_plus)[2::3] + allowance(scene.contacts.gaps, DT)).min() > -1e-9
        assert outside_cone(answer.p, scene.contacts.mu, edges) < 1e-9


@each_walker
def test_the_infinite_variant_treats_friction_as_infinite(name):
    """ID(t)_{QP,∞}: every μ > 0 taken for ∞; a frictionless contact stays frictionless."""
    for scene in varied(name, VARIANTS["all kinds"], 30):
        mu = np.where(scene.contacts.mu > 0, np.inf, 0.0)
        _, qp = program(scene, mu=mu)
        p = solve_semidefinite_qp(qp.H, qp.f, qp.A, qp.lower)
        answer = predict_scene(scene, "convex-infinite")
        assert answer.law == "convex-infinite"
        np.testing.assert_allclose(answer.v_plus, qp.v0 + qp.V @ p, atol=1e-7)
        assert np.abs(answer.p.reshape(-1, 3)[mu == 0, :2]).max(initial=0) < 1e-12


@each_walker
def test_one_stage_gives_the_smallest_impulses_in_a_stance(name):
    """ε‖p‖² selects the smallest of the equally good impulses: four equal feet, no friction."""
    scene = scenes.standing_scene(name)
    answer, (_, qp) = predict_scene(scene, "convex-one-stage"), program(scene)
    assert answer.law == "convex-one-stage"
    shortest = np.linalg.pinv(qp.H) @ -qp.f  # no constraint is active in a stance
    np.testing.assert_allclose(answer.p / DT, shortest / DT, atol=2e-3)
    np.testing.assert_allclose(answer.v_plus, predict_scene(scene, "convex").v_plus, atol=1e-8)


@every("backend", ["daqp", "quadprog", "piqp", "proxqp"])
def test_all_back_ends_give_the_same_velocity(backend):
    """Where a back end is not accurate enough the next rung answers; the velocity is the same."""
    assert backend in backends()
    law, reference = make_law("convex", backend=backend), make_law("convex")
    for scene in random_scenes("quadruped", 15):
        answer = predict_scene(scene, law, Options.paper(selection=Selection.TORQUE, ground=LITERAL))
        assert answer.status.ok
        np.testing.assert_allclose(answer.v_plus, predict_scene(scene, reference).v_plus, atol=1e-6)


def test_more_edges_dissipate_more():
    """Inscribed polygons grow with k = 4, 8, 16, so the energy left can only fall; circumscribed ones shrink."""
    scene = random_scene("solo12", 2, n=3, mu=0.1, touching=1.0)
    _, qp = program(scene)
    inside, outside = [], []
    for edges in (4, 8, 16):
        for energies, circumscribed in ((inside, False), (outside, True)):
            p = predict_scene(scene, Convex(edges=edges, circumscribed=circumscribed)).p
            energies.append(p @ qp.H @ p / 2 + qp.f @ p)
    assert inside[0] > inside[1] > inside[2] > outside[2] > outside[1] > outside[0]


def test_laws_are_found_by_name():
    assert [make_law(name).name for name in LAWS] == list(LAWS)
    with pytest.raises(ConfigError, match=r"law: no law named 'columb'.*coulomb"):
        make_law("columb")
    with pytest.raises(ConfigError, match=r"law\.backend: 'gurobi' is not installed.*daqp"):
        make_law("convex", backend="gurobi")
    for law, edges in [("convex", 5), *(("coulomb", k) for k in (3, 5, 2, 0, -4))]:
        with pytest.raises(ConfigError, match=r"law\.edges"):
            make_law(law, edges=edges)


@every("mu", [0.6, 1e5, 1e6])
def test_a_useless_last_basis_loses_no_answer(mu):
    """Lemke then comes before the QP back end; with large friction it may end on a ray, which proves nothing."""
    law, options, solved = make_law("convex"), Options.paper(ground=LITERAL), 0
    for seed in range(0, 60, 3):
        scene = scenes.many_points(random_scene("solo12" if seed % 2 else "quadruped", seed, mu=mu, n=4, touching=0.7), 2)
        first = predict_scene(scene, law, options)
        guess = msgspec.structs.replace(first.guess, law=law.name, basis=np.zeros((len(scene.contacts), law.basis_width), bool))
        again = predict_scene(scene, law, options, guess)
        assert again.law == first.law
        solved += again.rung == "lemke"
    assert solved > 0 or mu > 1.0  # there Lemke may end on a ray every time
