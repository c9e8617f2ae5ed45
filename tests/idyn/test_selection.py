"""Selection: never a larger torque, never another motion, never off the face, and the optimum that quadprog finds on it."""

import msgspec
import numpy as np
import pytest
from conditions import allowance
from faces import cone_face, convex_face, coulomb_face, exact_cone_face, no_slip_face
from fast import every, fast, first_is_fast
from oracles import full
from scenes import DT, LITERAL, each_walker, limitless, many_points, random_scene, standing_scene

from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Consistency, Guess, Selection, State

LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "convex-infinite", "cone", "cone-infinite")
RIGID = ("no-slip", "cone-infinite")
"""Laws that hold feet with any force: demands that drag them cost meganewtons."""


def scenes(name, law, count, points=1):
    """Without torque limits: those are another test's. Under rigid laws all feet stand."""
    settings = {"touching": 1.0} if law in RIGID else {}
    for seed in range(count):
        scene = random_scene(name, seed, **settings)
        yield many_points(msgspec.structs.replace(scene, robot=limitless(name)), points)


def solve(scene, law, selection, guess=None, **changes):
    scene = msgspec.structs.replace(scene, **changes)
    consistency = Consistency.HOLD if law in RIGID else Consistency.OFF
    options = Options.paper(selection=selection, consistency=consistency, ground=LITERAL)
    law = make_law(law)
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, guess=guess)


def faces(law, answer, f, contacts):
    """The face to choose from, and the fallback for an empty one."""
    mu, extra = contacts.mu, allowance(contacts.gaps, DT)
    if law == "coulomb":
        return [coulomb_face(answer, f, mu, extra)]
    if law == "exact-cone":
        return [exact_cone_face(answer, f, mu, extra)]
    if law == "no-slip":
        return no_slip_face(answer, f, mu, extra)
    if law == "cone":
        return [cone_face(answer, f, mu, extra)]
    return [convex_face(mu, 4)] + [convex_face(np.where(mu > 0, np.inf, 0), 4)] * law.endswith("-infinite")


@pytest.mark.parametrize("points", first_is_fast([1, 3]))
@every("law", LAWS)
@each_walker
def test_selection_keeps_the_motion_and_does_not_increase_the_torque(name, law, points):
    """‖τ‖ does not grow, v⁺ does not move, every point is on the face and certified."""
    for scene in scenes(name, law, 40 if points == 1 else 10, points):
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE)
        assert plain.law == chosen.law
        if law in RIGID and not plain.status.ok:
            continue
        assert plain.law == law
        assert plain.demand_change == chosen.demand_change
        assert np.abs(chosen.v_plus - plain.v_plus).max() < 1e-9
        assert chosen.residuals.worst < 1e-8
        f = full(scene.robot, scene.state, scene.contacts)
        assert np.linalg.norm(chosen.tau) <= np.linalg.norm(plain.tau) * (1 + 1e-9)
        assert any(face.contains(f, chosen.p, plain.p, 1e-8) for face in faces(law, plain, f, scene.contacts))


@every(("law", "points"), [*((law, 1) for law in LAWS[:6]), ("coulomb", 3), ("convex", 3)])
@each_walker
def test_selection_finds_the_smallest_torque(name, law, points):
    """τ is unique, whatever the impulses: an independent program in all variables has the same."""
    for scene in scenes(name, law, 30 if points == 1 else 8, points):
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE)
        f = full(scene.robot, scene.state, scene.contacts)
        possible = [g for g in faces(law, plain, f, scene.contacts) if not g.empty(f, plain.p)]
        for face in possible:  # real cones first, unless they cost torque
            tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, np.zeros(scene.robot.na))
            if np.linalg.norm(tau) <= np.linalg.norm(plain.tau) * (1 + 1e-9):
                break
        assert np.linalg.norm(chosen.tau) == pytest.approx(np.linalg.norm(tau), abs=1e-7 * np.linalg.norm(plain.tau))
        np.testing.assert_allclose(chosen.tau, tau, atol=3e-5 * np.linalg.norm(plain.tau))


def sliding(name, seed, points):
    """Feet that slide and turn on the ground, one leg moving: some points stick, some slide, some separate."""
    rng = np.random.default_rng(seed)
    scene, v = standing_scene(name, mu=0.3), np.zeros(18)
    v[:2], v[5] = 0.3 * rng.normal(size=2), rng.normal()
    v[6 + 3 * (seed % 4) :][:3] = 0.05 * rng.normal(size=3)
    moving = State(q=scene.state.q, v=v)
    return many_points(msgspec.structs.replace(scene, robot=limitless(name), state=moving), points)


@pytest.mark.parametrize("law", first_is_fast(["coulomb", "exact-cone"]))
@each_walker
def test_sliding_feet_share_their_load_by_selection(name, law):
    """Friction of sliding points stays at its limit; the distribution of the load is free. On round cones each point has its
    own direction, so fewer share."""
    choices = 0
    for seed in range(40):
        scene = sliding(name, seed, 3)
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE)
        f = full(scene.robot, scene.state, scene.contacts)
        face = faces(law, plain, f, scene.contacts)[0]
        tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, np.zeros(12))
        assert "unselected" not in chosen.rung
        assert np.linalg.norm(chosen.tau) == pytest.approx(np.linalg.norm(tau), abs=1e-7 * np.linalg.norm(plain.tau))
        assert face.contains(f, chosen.p, plain.p, 1e-8)
        choices += chosen.null_dim > 0
    assert choices > (10 if law == "coulomb" else 2)


def earlier(scene, law):
    """A guess of another answer: the torque and impulses that the tick before might have had."""
    rng = np.random.default_rng(len(scene.contacts))
    answer = solve(scene, law, Selection.TORQUE)
    force = answer.force + 10.0 * rng.normal(size=answer.force.shape)
    return Guess(
        law="another",
        keys=scene.contacts.keys,
        basis=answer.guess.basis,
        tau=answer.tau + rng.normal(size=12),
        force=force,
    )


@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "convex"], "coulomb"))
@each_walker
def test_torque_change_is_minimal_over_the_face(name, law):
    """min ‖τ − τ_prev‖² over the same face."""
    for scene in scenes(name, law, 20):
        guess = earlier(scene, law)
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE_CHANGE, guess)
        f = full(scene.robot, scene.state, scene.contacts)
        face = next(g for g in faces(law, plain, f, scene.contacts) if not g.empty(f, plain.p))
        tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, guess.tau)
        scale = max(np.linalg.norm(plain.tau), np.linalg.norm(plain.tau - guess.tau))
        assert np.linalg.norm(chosen.tau - guess.tau) == pytest.approx(np.linalg.norm(tau - guess.tau), abs=1e-7 * scale)
        assert np.abs(chosen.v_plus - plain.v_plus).max() < 1e-9


def in_contact_rows(contacts, impulse):
    t = np.cross(contacts.normals, contacts.tangents)
    return np.stack([(d * impulse).sum(axis=1) for d in (contacts.tangents, t, contacts.normals)], axis=1).ravel()


@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "convex"], "coulomb"))
@each_walker
def test_impulse_change_is_minimal_over_the_face(name, law):
    """min ‖p − p_prev‖², p_prev in the world frame: contacts may be in another order or turned since."""
    for seed, scene in enumerate(scenes(name, law, 20)):
        guess, c = earlier(scene, law), scene.contacts
        order = np.random.default_rng(seed).permutation(len(c))
        shuffled = msgspec.structs.replace(guess, keys=tuple(c.keys[i] for i in order), force=guess.force[order])
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.IMPULSE_CHANGE, shuffled)
        f = full(scene.robot, scene.state, c)
        face = next(g for g in faces(law, plain, f, c) if not g.empty(f, plain.p))
        before = in_contact_rows(c, DT * guess.force)
        p = face.nearest(f, plain.p, np.eye(3 * len(c)), plain.p, before)
        np.testing.assert_allclose(chosen.p, p, atol=1e-6 * np.linalg.norm(plain.p - before))


def test_new_contacts_count_as_unloaded():
    scene = next(s for s in scenes("solo12", "convex", 50) if len(s.contacts) == 4)
    guess = earlier(scene, "convex")
    lost = msgspec.structs.replace(guess, keys=guess.keys[1:], force=guess.force[1:])
    zeroed = msgspec.structs.replace(guess, force=np.vstack([np.zeros((1, 3)), guess.force[1:]]))
    strange = msgspec.structs.replace(lost, keys=(*lost.keys, "another place"), force=np.vstack([lost.force, [[9, 9, 9]]]))
    expected = solve(scene, "convex", Selection.IMPULSE_CHANGE, zeroed).p
    np.testing.assert_allclose(solve(scene, "convex", Selection.IMPULSE_CHANGE, lost).p, expected, atol=1e-12)
    np.testing.assert_allclose(solve(scene, "convex", Selection.IMPULSE_CHANGE, strange).p, expected, atol=1e-12)


def test_without_a_guess_the_change_is_counted_from_zero():
    scene = next(scenes("solo12", "coulomb", 1))
    torque = solve(scene, "coulomb", Selection.TORQUE).tau
    np.testing.assert_allclose(solve(scene, "coulomb", Selection.TORQUE_CHANGE).tau, torque, atol=1e-9)


@every("selection", [Selection.TORQUE_CHANGE, Selection.IMPULSE_CHANGE])
def test_an_unchanged_problem_keeps_its_selection(selection):
    """The steady state of a change objective."""
    for scene in scenes("quadruped", "coulomb", 10):
        first = solve(scene, "coulomb", selection)
        again = solve(scene, "coulomb", selection, first.guess)
        np.testing.assert_allclose(again.tau, first.tau, atol=1e-8 * (1 + np.abs(first.tau).max()))


@every("points", [1, 3])
def test_the_smallest_change_of_torque_is_measured_from_the_last_torque(points):
    """With few and with many contacts: no certified answer of another objective is nearer to the last torque."""
    scene = many_points(msgspec.structs.replace(standing_scene("quadruped"), robot=limitless("quadruped")), points)
    first = solve(scene, "coulomb", Selection.TORQUE)
    for seed in range(5):
        last = first.tau + 0.1 * np.random.default_rng(seed).normal(size=len(first.tau))
        guess, away = msgspec.structs.replace(first.guess, tau=last), {}
        for kind in (Selection.TORQUE, Selection.OFF, Selection.FORCE, Selection.TORQUE_CHANGE):
            answer = solve(scene, "coulomb", kind, guess)
            assert answer.status.ok
            away[kind] = np.linalg.norm(answer.tau - last)
        nearest = away.pop(Selection.TORQUE_CHANGE)
        assert nearest < 0.95 * min(away.values())
