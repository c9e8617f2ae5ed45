"""The convex law: least kinetic energy, against quadprog on a program assembled from the energy of the whole robot."""

import msgspec
import numpy as np
import pytest
from conditions import allowance, dynamics, outside_cone
from fast import every, first_is_fast
from oracles import convex_program, full, solve_semidefinite_qp
from scenes import (
    DT,
    LITERAL,
    VARIANTS,
    each_walker,
    many_points,
    predict_scene,
    random_scene,
    random_scenes,
    standing_scene,
    varied,
)

from idyn import LAWS, ConfigError, Options, Selection, make_law
from idyn.laws.convex import Convex
from idyn.solvers.qp import backends

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
    for name in LAWS:
        assert make_law(name).name == name
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
        scene = many_points(random_scene("solo12" if seed % 2 else "quadruped", seed, mu=mu, n=4, touching=0.7), 2)
        first = predict_scene(scene, law, options)
        nothing = np.zeros((len(scene.contacts), law.basis_width), dtype=np.bool_)
        guess = msgspec.structs.replace(first.guess, law=law.name, basis=nothing)
        again = predict_scene(scene, law, options, guess)
        assert again.law == first.law
        solved += again.rung == "lemke"
    if mu < 1.0:  # beyond, Lemke may end on a ray every time
        assert solved > 0
