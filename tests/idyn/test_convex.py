"""The convex law: least kinetic energy, against quadprog on a program assembled from the energy of the whole robot."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, cone_error, dynamics, outside_cone
from fast import every, first_is_fast
from oracles import convex_program, full, solve_semidefinite_qp
from rungs import attempts
from scenes import (
    DT,
    LITERAL,
    VARIANTS,
    WALKERS,
    each_walker,
    many_points,
    predict_scene,
    random_scene,
    random_scenes,
    reduced,
    standing_scene,
    turned,
    varied,
)

from idyn import LAWS, ConfigError, Consistency, Options, Selection, State, Status, make_law
from idyn.laws.convex import Convex, pivot_to_basis
from idyn.laws.convex_basis import solve_basis
from idyn.laws.convex_program import Program, assemble, cone_rays
from idyn.laws.law import polygon
from idyn.solvers.qp import backends, solve_qp

TRIED = ("few feet", "twelve points", "all kinds")


def program(scene, edges=4, mu=None):
    f = full(scene.robot, scene.state, scene.contacts)
    c = scene.contacts
    return f, convex_program(f, scene.q_ddot, DT, c.mu if mu is None else mu, allowance(c.gaps, DT), edges)


@pytest.mark.parametrize("edges", first_is_fast([4, 8]))
@every("variant", TRIED)
@each_walker
def test_convex_has_the_least_kinetic_energy(name, variant, edges):
    """Its velocity is the optimum's, which is unique; it keeps every constraint; no other admissible p has less energy."""
    law = make_law("convex", edges=edges)
    for scene in varied(name, VARIANTS[variant], 40 if variant == "few feet" else 12):
        answer = predict_scene(scene, law)
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
    law = make_law("convex-infinite")
    for scene in varied(name, VARIANTS["all kinds"], 30):
        mu = np.where(scene.contacts.mu > 0, np.inf, 0.0)
        _, qp = program(scene, mu=mu)
        p = solve_semidefinite_qp(qp.H, qp.f, qp.A, qp.lower)
        answer = predict_scene(scene, law)
        assert answer.law == "convex-infinite"
        np.testing.assert_allclose(answer.v_plus, qp.v0 + qp.V @ p, atol=1e-7)
        frictionless = np.repeat(mu == 0, 3)
        frictionless[2::3] = False
        assert np.abs(answer.p[frictionless]).max(initial=0) < 1e-12


@each_walker
def test_one_stage_gives_the_smallest_impulses_in_a_stance(name):
    """ε‖p‖² selects the smallest of the equally good impulses: four equal feet, no friction."""
    scene = standing_scene(name)
    answer = predict_scene(scene, "convex-one-stage")
    assert answer.law == "convex-one-stage"
    _, qp = program(scene)
    shortest = np.linalg.pinv(qp.H) @ -qp.f  # no constraint is active in a stance
    np.testing.assert_allclose(answer.p / DT, shortest / DT, atol=2e-3)
    two_stage = predict_scene(scene, "convex")
    np.testing.assert_allclose(answer.v_plus, two_stage.v_plus, atol=1e-8)


@every("backend", ["daqp", "quadprog", "piqp", "proxqp"])
def test_all_back_ends_give_the_same_velocity(backend):
    """Where a back end is not accurate enough the next rung answers; the velocity is the same."""
    assert backend in backends()
    law, reference = make_law("convex", backend=backend), make_law("convex")
    for scene in random_scenes("quadruped", 15):
        options = Options.paper(selection=Selection.TORQUE, ground=LITERAL)
        answer = predict_scene(scene, law, options)
        assert answer.status.ok
        np.testing.assert_allclose(answer.v_plus, predict_scene(scene, reference).v_plus, atol=1e-6)


@each_walker
def test_the_tangent_basis_does_not_matter_without_a_cone(name):
    """v⁺ of QP,∞ is unchanged by any turn."""
    law, rng = make_law("convex-infinite"), np.random.default_rng(0)
    for scene in random_scenes(name, 40):
        other = turned(scene.contacts, rng.uniform(0, 6, len(scene.contacts)))
        expected = predict_scene(scene, law).v_plus
        np.testing.assert_allclose(predict_scene(scene, law, contacts=other).v_plus, expected, atol=1e-7)


@each_walker
def test_quarter_turns_of_the_tangents_are_exact(name):
    law, rng = make_law("convex"), np.random.default_rng(0)
    for scene in random_scenes(name, 40):
        other = turned(scene.contacts, np.pi / 2 * rng.integers(0, 4, len(scene.contacts)))
        expected = predict_scene(scene, law).v_plus
        np.testing.assert_allclose(predict_scene(scene, law, contacts=other).v_plus, expected, atol=1e-7)


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


@pytest.mark.parametrize("edges", first_is_fast([4, 8]))
@every("variant", TRIED)
@each_walker
def test_the_cone_law_is_cone_complementarity(name, variant, edges):
    """With infinite friction there may be no answer in which separating contacts carry no force."""
    law, count, without = make_law("cone", edges=edges), 40 if variant == "few feet" else 12, 0
    for scene in varied(name, VARIANTS[variant], count):
        answer = predict_scene(scene, law)
        if variant == "all kinds" and answer.status.name == "OTHER_LAW":
            without += 1
            continue
        assert (answer.law, answer.status.name) == ("cone", "SOLVED")
        f = full(scene.robot, scene.state, scene.contacts)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-8
        assert cone_error(f, answer.p, answer.v_plus, scene.contacts.mu, allowance(scene.contacts.gaps, DT), edges) < 1e-8
    assert without <= 2


@each_walker
def test_sticking_feet_stick_under_the_cone_law_and_slide_under_the_convex_law(name):
    """The base moves over resting feet: Coulomb's law and its relaxation agree; least kinetic energy brakes the base."""
    scene = standing_scene(name)
    f = full(scene.robot, scene.state, scene.contacts)
    v = np.zeros(len(f.v))
    v[0] = 0.2
    v[f.a] = -np.linalg.pinv(f.J[:, f.a]) @ f.J[:, 0] * 0.2  # the legs turn under the base
    moving = msgspec.structs.replace(scene, state=State(q=scene.state.q, v=v), q_ddot=np.zeros(len(f.a)))
    hold = Options.paper(selection=Selection.TORQUE, ground=LITERAL, consistency=Consistency.HOLD)
    answers = {law: predict_scene(moving, law, hold) for law in ("coulomb", "cone", "convex")}
    np.testing.assert_allclose(answers["cone"].v_plus, answers["coulomb"].v_plus, atol=1e-9)
    np.testing.assert_allclose(answers["cone"].tau, answers["coulomb"].tau, atol=1e-6)
    assert abs(answers["cone"].v_plus[0] - 0.2) < 0.01
    assert answers["convex"].v_plus[0] < answers["cone"].v_plus[0] - 0.01
    f = full(moving.robot, moving.state, moving.contacts)
    assert np.abs(f.at_end(answers["cone"].v_plus)[0::3]).max() < 1e-6
    assert np.abs(f.at_end(answers["convex"].v_plus)[0::3]).max() > 0.01


@every("law", LAWS)
def test_every_law_answers_without_contacts(law):
    scene = random_scene("solo12", 0, n=0)
    answer = predict_scene(scene, law)
    assert (answer.law, answer.status.name) == (law, "SOLVED")
    assert answer.p.shape == (0,)
    f, _ = full(scene.robot, scene.state, scene.contacts), None
    assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-12


@each_walker
def test_contact_free_ignores_contacts(name):
    for seed in range(10):
        scene = random_scene(name, seed, touching=1.0)
        answer = predict_scene(scene, "contact-free")
        free = predict_scene(
            msgspec.structs.replace(scene, contacts=random_scene(name, seed, n=0).contacts), make_law("coulomb")
        )
        assert not answer.p.any()
        np.testing.assert_array_equal(answer.tau, free.tau)


def test_laws_are_found_by_name():
    for name in LAWS:
        assert make_law(name).name == name
    with pytest.raises(ConfigError, match=r"law: no law named 'columb'.*coulomb"):
        make_law("columb")
    with pytest.raises(ConfigError, match=r"law\.backend: 'gurobi' is not installed.*daqp"):
        make_law("convex", backend="gurobi")
    with pytest.raises(ConfigError, match=r"law\.edges"):
        make_law("convex", edges=5)


@every("mu", [0.6, 1e5, 1e6])
def test_a_useless_last_basis_loses_no_answer(mu):
    """Lemke then comes before the QP back end; with large friction it may end on a ray, which proves nothing."""
    law, options, solved = make_law("convex"), Options.paper(ground=LITERAL), 0
    for seed in range(0, 60, 3):
        scene = many_points(random_scene("solo12" if seed % 2 else "quadruped", seed, mu=mu, n=4, touching=0.7), 2)
        first = predict_scene(scene, law, options)
        nothing = np.zeros((len(scene.contacts), law.basis_width), dtype=np.bool_)
        guess = msgspec.structs.replace(first.guess, law=law.name, basis=nothing)
        again = predict_scene(scene, law, options, guess)
        assert again.law == first.law
        solved += again.rung == "lemke"
    if mu < 1.0:  # beyond, Lemke may end on a ray every time
        assert solved > 0


# -- bases -------------------------------------------------------------------------------------------------------------


FRICTION = {"finite": (0.3, 1.0), "all kinds": (0.0, 0.3, 1.0, np.inf)}


def problems(name, friction, count, points=1):
    for seed in range(count):
        scene = many_points(random_scene(name, seed, n=4 if points > 1 else None), points)
        r, _ = reduced(scene)
        mu = np.random.default_rng(seed).choice(FRICTION[friction], len(scene.contacts))
        yield type(r)(Y=r.Y, b=r.b, energy=r.energy, mu=mu)


def energy(problem, p):
    return 0.5 * np.sum((problem.Y.T @ p) ** 2) + problem.energy @ p


@pytest.mark.parametrize("edges", first_is_fast([4, 8]))
@every("friction", FRICTION)
@every(("name", "points"), [*((w, 1) for w in WALKERS), ("quadruped", 3)])
def test_a_basis_is_read_off_the_back_ends_solution(name, points, friction, edges):
    """Started with it, the next call nearly always needs no QP, and its point has the same motion and no more energy."""
    law, exact, count = Convex(edges=edges), 0, 0
    for problem in problems(name, friction, 40, points):
        count += 1
        cold = next(solution for _, solution in attempts(law, problem, None) if solution.status == Status.SOLVED)
        H, f, A, lower, unit, _ = assemble(
            Program(problem.Y, problem.b, problem.energy, problem.mu, False, law.directions), 0.0
        )
        assert energy(problem, cold.p) <= energy(problem, unit * solve_qp(H, f, A, lower).x) + 1e-9
        rung, warm = next(attempts(law, problem, cold.basis))
        assert rung == "warm"
        if warm.status == Status.SOLVED:
            exact += 1
            np.testing.assert_allclose(problem.Y.T @ warm.p, problem.Y.T @ cold.p, atol=1e-7)
            assert energy(problem, warm.p) <= energy(problem, cold.p) + 1e-9
    assert exact >= 0.95 * count


@every("friction", FRICTION)
@each_walker
def test_pivots_end_at_a_basis(name, friction):
    """Of independent rays, with no more energy than the back end's answer; afterwards it is the last basis."""
    directions, exact, count = polygon(4), 0, 0
    for problem in problems(name, friction, 40):
        program = Program(problem.Y, problem.b, problem.energy, problem.mu, False, directions)
        basis = np.ones((len(problem.mu), 5), dtype=np.bool_)
        p, y, _, status, _ = pivot_to_basis(program, basis)
        count += 1
        if status != Status.SOLVED.value:
            continue
        exact += 1
        loaded = cone_rays(program).G[basis[:, :-1].ravel()]
        assert np.linalg.matrix_rank(loaded) == len(loaded)
        H, f, A, lower, unit, _ = assemble(program, 0.0)
        assert energy(problem, p) <= energy(problem, unit * solve_qp(H, f, A, lower).x) + 1e-9
        again, multipliers, _, solved = solve_basis(program, basis, False)
        assert solved
        np.testing.assert_array_equal(again, p)
        np.testing.assert_array_equal(multipliers, y)
    assert exact >= 0.95 * count
