"""Torque limits inside the selection, and the reference numbers of a standing robot."""

import msgspec
import numpy as np
import pytest
import scipy.linalg
from conditions import allowance
from faces import convex_face, coulomb_face
from fast import every, fast
from oracles import facet_normals, full, solve_qp, solve_semidefinite_qp
from scenes import DT, LITERAL, Scene, each_walker, feet, random_scene, standing_scene, walker

from idyn.contact.contacts import centres_of
from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Consistency, Selection, State


def limited(robot, bound):
    return robot.variant(tau_max=dict(zip(robot.joint_names, bound, strict=True)))


def solve(scene, law, selection=Selection.TORQUE):
    options = Options.paper(selection=selection, consistency=Consistency.HOLD, ground=LITERAL)
    law = make_law(law)
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options)


def calm_scene(name, seed):
    """Four loaded feet, moving gently: there are forces to choose from."""
    scene = random_scene(name, seed, n=4, mu=0.6, touching=1.0)
    state = State(q=scene.state.q, v=0.05 * scene.state.v)
    return msgspec.structs.replace(scene, state=state, q_ddot=0.05 * scene.q_ddot)


def face_of(scene, law, plain, f):
    mu, extra = scene.contacts.mu, allowance(scene.contacts.gaps, DT)
    return coulomb_face(plain, f, mu, extra) if law == "coulomb" else convex_face(mu, 4)


def affine(face, f, plain):
    """τ = τ₀ − B x over A x ≥ 0, E x = e; p = G x in units of the largest impulse."""
    unit = max(np.abs(plain.p).max(initial=0), 1e-6)
    B = f.Ja.T @ face.G * unit / DT
    E, e = np.vstack([face.E, f.Ju.T @ face.G]), np.r_[np.zeros(len(face.E)), f.Ju.T @ plain.p / unit]
    return plain.tau + f.Ja.T @ plain.p / DT, B, E, e


def smallest_excess(face, f, plain, bound):
    """The least Σ s²  s.t.  |τ| ≤ bound + s, s ≥ 0 over the face, by quadprog."""
    free, B, E, e = affine(face, f, plain)
    m, na, unit = B.shape[1], len(bound), bound[0]
    H = scipy.linalg.block_diag(np.zeros((m, m)), np.eye(na))
    A = np.block(
        [
            [B / unit, np.eye(na)],
            [-B / unit, np.eye(na)],
            [face.A, np.zeros((len(face.A), na))],
            [np.zeros((na, m)), np.eye(na)],
        ]
    )
    lower = np.r_[(free - bound) / unit, (-free - bound) / unit, np.full(len(face.A), -1e-10), np.zeros(na)]
    x = solve_semidefinite_qp(H, np.zeros(m + na), A, lower, np.hstack([E, np.zeros((len(E), na))]), e)
    return unit**2 * x[m:] @ x[m:]


@pytest.mark.parametrize("share", fast([0.98, 0.9, 0.5], 0.9))
@every("law", ["coulomb", "convex"])
@each_walker
def test_torque_limits_are_kept_where_possible(name, law, share):
    """Limits cut to a share of the unlimited choice: the excess is the smallest sum of squares, and 0 if possible."""
    kept = exceeded = near = 0
    for seed in range(25):
        scene = calm_scene(name, seed)
        bound = np.full(12, share * np.abs(solve(scene, law).tau).max())
        scene = msgspec.structs.replace(scene, robot=limited(scene.robot, bound))
        plain, answer = solve(scene, law, Selection.OFF), solve(scene, law)
        f = full(scene.robot, scene.state, scene.contacts)
        least = smallest_excess(face_of(scene, law, plain, f), f, plain, bound)
        assert np.abs(answer.v_plus - plain.v_plus).max() < 1e-9
        assert answer.torque_excess == pytest.approx(max(np.abs(answer.tau).max() - bound[0], 0), abs=1e-9)
        beyond = np.maximum(np.abs(answer.tau) - bound, 0)
        assert beyond @ beyond == pytest.approx(least, rel=0.05, abs=1e-8 * bound[0] ** 2)
        near += beyond @ beyond <= (1 + 1e-4) * least + 1e-8 * bound[0] ** 2
        assert (answer.torque_excess == 0) == (least < 1e-8 * bound[0] ** 2)
        kept += answer.torque_excess == 0
        exceeded += answer.torque_excess > 0
    assert near >= 24  # of 25; one program is too stiff for its limits
    assert exceeded > 0
    assert kept > 0 or share == 0.5


@every("law", ["coulomb", "convex"])
@each_walker
def test_within_the_limits_the_torque_is_the_smallest(name, law):
    """The independent program with the limits among its rows."""
    compared = 0
    for seed in range(30):
        scene = calm_scene(name, seed)
        bound = np.full(12, 0.9 * np.abs(solve(scene, law).tau).max())
        scene = msgspec.structs.replace(scene, robot=limited(scene.robot, bound))
        plain, answer = solve(scene, law, Selection.OFF), solve(scene, law)
        if answer.torque_excess > 0 or answer.null_dim == 0:
            continue
        compared += 1
        f = full(scene.robot, scene.state, scene.contacts)
        face = face_of(scene, law, plain, f)
        free, B, E, e = affine(face, f, plain)
        A = np.vstack([face.A, B / bound[0], -B / bound[0]])
        lower = np.r_[np.full(len(face.A), -1e-10), (free - bound) / bound[0], (-free - bound) / bound[0]]
        x = solve_semidefinite_qp(B.T @ B / bound[0] ** 2, -B.T @ free / bound[0] ** 2, A, lower, E, e)
        assert np.linalg.norm(answer.tau) == pytest.approx(np.linalg.norm(free - B @ x), rel=1e-6)
    assert compared > 1


def test_an_excess_without_choice_is_reported():
    """With one foot there is no choice."""
    scene = random_scene("solo12", 0, n=1)
    free = solve(scene, "coulomb")
    assert free.null_dim == 0
    scene = msgspec.structs.replace(scene, robot=limited(scene.robot, np.full(12, 0.5 * np.abs(free.tau).max())))
    answer = solve(scene, "coulomb")
    np.testing.assert_array_equal(answer.tau, free.tau)
    assert answer.torque_excess == pytest.approx(0.5 * np.abs(free.tau).max())


def reference_stance():
    """solo12 at q₂ = 0.3 m, legs (0, 0.7, −1.4) in front and mirrored behind, on the points where its foot frames are."""
    robot, _ = walker("solo12")
    q = robot.neutral()
    q[2] = 0.3
    q = robot.with_joint_angles(q, np.array([0, 0.7, -1.4] * 2 + [0, -0.7, 1.4] * 2))
    points = centres_of(robot, q, robot.spheres)
    contacts = feet(robot, q, mu=np.full(4, 0.6), points=points)
    return Scene(robot=robot, state=State(q=q, v=np.zeros(18)), contacts=contacts, q_ddot=np.zeros(12))


@every("law", ["coulomb", "no-slip"])
def test_without_selection_two_diagonal_feet_carry_the_reference_stance(law):
    answer = solve(reference_stance(), law, Selection.OFF)
    np.testing.assert_allclose(np.sort(answer.normal_force), [0, 0, 12.2625, 12.2625], atol=5e-5)
    loaded = set(np.flatnonzero(answer.normal_force > 1))
    assert loaded in ({0, 3}, {1, 2})


def test_the_convex_law_loads_four_feet_of_the_reference_stance_equally():
    answer = solve(reference_stance(), "convex", Selection.OFF)
    np.testing.assert_allclose(answer.normal_force, 6.131, atol=5e-4)
    assert np.linalg.norm(answer.tau) == pytest.approx(1.3491, abs=5e-5)


@every("law", ["coulomb", "no-slip", "convex"])
def test_selection_matches_the_static_optimum_of_the_reference_stance(law):
    """|τ| = 1.00864: the optimum of the statics, min ‖h_a − J_aᵀ f‖ s.t. J_uᵀ f = h_u and the cone, by two back ends."""
    scene = reference_stance()
    f = full(scene.robot, scene.state, scene.contacts)
    facets = np.zeros((20, 12))
    for i in range(4):
        facets[4 * i : 4 * i + 4, 3 * i : 3 * i + 2], facets[4 * i : 4 * i + 4, 3 * i + 2] = -facet_normals(4), 0.6
        facets[16 + i, 3 * i + 2] = 1
    answer = solve(scene, law)
    for solver in ("quadprog", "piqp"):
        force = solve_qp(f.Ja @ f.Ja.T, -f.Ja @ f.h[f.a], facets, np.zeros(20), f.Ju.T, f.h[f.u], solver=solver)
        np.testing.assert_allclose(answer.p / DT, force, atol=1e-7)
        np.testing.assert_allclose(answer.tau, f.h[f.a] - f.Ja.T @ force, atol=1e-8)
    np.testing.assert_allclose(answer.normal_force, 6.131, atol=5e-4)
    assert np.linalg.norm(answer.tau) == pytest.approx(1.008642, abs=1e-6)
    inwards = answer.force[:, 0] * np.sign(scene.contacts.points[:, 0])
    assert (inwards < -1).all()


@every("law", ["coulomb", "no-slip", "convex"])
@each_walker
def test_every_law_selects_the_same_stance(name, law):
    """At rest all laws agree on the motion, so the selection makes them agree on forces and torques."""
    scene = standing_scene(name)
    answer, reference = solve(scene, law), solve(scene, "coulomb")
    np.testing.assert_allclose(answer.v_plus, 0, atol=1e-12)
    np.testing.assert_allclose(answer.tau, reference.tau, atol=1e-8)
    np.testing.assert_allclose(answer.normal_force, reference.normal_force, atol=1e-6)
    assert answer.null_dim == 6
