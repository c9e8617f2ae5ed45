"""Yielding ground: every law with v̂ = v⁺ − (1 − dt/T_r) v + (T_p/dt) M_uu⁻¹ J_uᵀ (p − p⁻), judged by dense formulas."""

import msgspec
import numpy as np
import pytest
from certificates import certified
from conditions import allowance, coulomb_error, dynamics, no_slip_error
from fast import every
from oracles import full
from scenes import DT, LITERAL, each_walker, predict_scene, random_scene, random_scenes, standing_scene

from idyn import Consistency, Ground, InputError, Options, Selection, make_law
from idyn.certificate.certify import Claim
from idyn.contact.soft import NO_CONSTRAINTS
from idyn.terms.dynamics import evaluate

RELAXATION, MEMORY = 0.05, 0.005
YIELDING = Ground.rigid(noise=0.0, recovery_speed=0.0, relaxation=RELAXATION, memory=MEMORY)
LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "cone", "cone-infinite")


def solve(scene, law, ground=YIELDING, guess=None, selection=Selection.TORQUE, consistency=Consistency.PROJECT, dt=DT):
    options = Options.paper(selection=selection, consistency=consistency, ground=ground)
    return predict_scene(scene, law, options, guess=guess, dt=dt)


def v_hat(scene, answer, guess, ground=YIELDING, dt=DT):
    """The velocity in the law's conditions, and the full system."""
    f, n = full(scene.robot, scene.state, scene.contacts), len(scene.contacts)
    last = np.zeros(3 * n)
    s, n_axis = scene.contacts.tangents, scene.contacts.normals
    frames = np.stack([s, np.cross(n_axis, s), n_axis])
    for i, key in enumerate(scene.contacts.keys):
        if guess is not None and key in guess.keys:
            last[3 * i : 3 * i + 3] = dt * frames[:, i] @ guess.force[guess.keys.index(key)]
    hat = answer.v_plus - (1 - dt / ground.relaxation) * f.v
    hat[f.u] += ground.memory / dt * np.linalg.solve(f.M[np.ix_(f.u, f.u)], f.Ju.T @ (answer.p - last))
    return f, hat


def earlier(scene, law, seed):
    """A guess of an earlier tick: another answer's forces, of some of the contacts, in another order."""
    guess = solve(msgspec.structs.replace(scene, q_ddot=-scene.q_ddot), law).guess
    keep = np.random.default_rng(seed).permutation(len(guess.keys))[: max(1, len(guess.keys) - 1)]
    keys = tuple(guess.keys[i] for i in keep)
    return msgspec.structs.replace(guess, keys=keys, basis=guess.basis[keep], force=guess.force[keep])


@every("law", LAWS)
@each_walker
def test_every_law_answers_itself_and_a_steady_contact_has_the_rigid_answer(name, law):
    own = 0
    for seed in range(40):
        scene = random_scene(name, seed)
        answer = solve(scene, law, guess=earlier(scene, law, seed))
        assert answer.status.ok
        assert answer.residuals.worst <= 1e-8
        own += answer.law == law
    assert own >= 36
    scene = standing_scene(name)
    rigid = solve(scene, law, LITERAL)
    steady = solve(scene, law, guess=rigid.guess)
    np.testing.assert_allclose(steady.tau, rigid.tau, atol=1e-7)
    np.testing.assert_allclose(steady.v_plus, rigid.v_plus, atol=1e-9)


@each_walker
@every(("law", "error"), [("coulomb", coulomb_error), ("no-slip", no_slip_error)])
def test_the_conditions_hold_for_v_hat(name, law, error):
    for seed in range(40):
        scene = random_scene(name, seed)
        guess = earlier(scene, law, seed)
        answer = solve(scene, law, guess=guess)
        if answer.law != law:
            continue
        f, hat = v_hat(scene, answer, guess)
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) <= 1e-8
        assert error(f, answer.p, hat, scene.contacts.mu, allowance(scene.contacts.gaps, DT, recovery=0.0)) <= 1e-7


@every("law", LAWS)
def test_a_relaxation_of_one_period_without_memory_is_the_rigid_law(law):
    letter = Ground.rigid(noise=0.0, recovery_speed=np.inf, relaxation=DT, memory=0.0)
    for scene in random_scenes("quadruped", 10):
        np.testing.assert_array_equal(solve(scene, law, letter).tau, solve(scene, law, LITERAL).tau)


def test_a_sinking_foot_is_stopped_over_the_relaxation_time():
    """The whole robot sinks at 0.1 m/s with its joints held: the ground gives m (g + 0.1/T_r), not m (g + 0.1/dt)."""
    scene = standing_scene("quadruped")
    sinking = np.zeros(scene.robot.nv)
    sinking[2] = -0.1
    scene = msgspec.structs.replace(scene, state=msgspec.structs.replace(scene.state, v=sinking))
    ground = msgspec.structs.replace(YIELDING, memory=0.0)
    mass = scene.robot.total_mass
    for law in LAWS:
        answer = solve(scene, law, ground, consistency=Consistency.OFF)
        assert answer.normal_force.sum() == pytest.approx(mass * (9.81 + 0.1 / RELAXATION), rel=1e-9)


@every("law", LAWS)
def test_with_memory_the_wrench_follows_with_its_time_constant_but_for_the_first_answer(law):
    """From zero towards the weight: after k ticks 1 − (1 + dt/T_p)⁻ᵏ of it."""
    scene = standing_scene("quadruped")
    weight = scene.robot.total_mass * 9.81
    guess = msgspec.structs.replace(solve(scene, law).guess, force=np.zeros((4, 3)))
    for k in range(1, 12):
        answer = solve(scene, law, guess=guess, consistency=Consistency.OFF)
        expected = weight * (1 - (1 + DT / MEMORY) ** -k)
        assert answer.normal_force.sum() == pytest.approx(expected, rel=1e-9)
        guess = answer.guess
    weight = scene.robot.total_mass * 9.81
    first = solve(scene, law)
    assert first.normal_force.sum() == pytest.approx(weight, rel=1e-9)
    bad = msgspec.structs.replace(first.guess, force=np.full((4, 3), np.nan))
    assert solve(scene, law, guess=bad).normal_force.sum() == pytest.approx(weight / (1 + MEMORY / DT), rel=1e-9)


def test_the_certificate_refuses_another_relaxation_or_memory():
    scene = random_scene("solo12", 3, touching=1.0)
    guess = earlier(scene, "coulomb", 3)
    answer, last = solve(scene, "coulomb", guess=guess), guess.carried_over(guess.force, scene.contacts.keys)
    last = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=YIELDING, last=last).dynamics.given.last
    assert worst(scene, answer, YIELDING, last) <= 1e-8
    assert worst(scene, answer, msgspec.structs.replace(YIELDING, relaxation=2 * RELAXATION), last) > 1e-4
    assert worst(scene, answer, msgspec.structs.replace(YIELDING, memory=2 * MEMORY), last) > 1e-4
    assert worst(scene, answer, YIELDING, np.zeros_like(last)) > 1e-4


def worst(scene, answer, ground, last):
    """The certificate's largest residual of a Coulomb answer for this ground and these last impulses (3n)."""
    law = make_law("coulomb")
    given = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=ground, last=np.zeros((len(last) // 3, 3)))
    given = given.dynamics.given
    given.own["last"][:] = last
    claim = Claim(law.conditions.value, law.directions, law.unlimited_friction, np.zeros(0), 0.0, law.material, NO_CONSTRAINTS)
    met = (answer.v_plus - scene.state.v)[scene.robot.tree.a] / DT
    return certified(given, met, claim, answer.p, answer.v_plus, answer.tau)[0].max()


@every("law", ["no-slip", "coulomb", "cone"])
def test_force_selection_uses_little_friction(law):
    scene = standing_scene("quadruped")
    answer = solve(scene, law, LITERAL, selection=Selection.FORCE)
    plain = solve(scene, law, LITERAL, selection=Selection.OFF)
    np.testing.assert_allclose(answer.v_plus, plain.v_plus, atol=1e-10)
    force = answer.p.reshape(4, 3) / DT
    level = np.abs(force[:, :2]).max()
    assert level < 0.2 * force[:, 2].min()
    assert np.linalg.norm(force) <= np.linalg.norm(solve(scene, law, LITERAL).p / DT) + 1e-9


NUMBERS = [name for name in Ground.__struct_fields__ if name != "drift"]
NO_NUMBERS = (np.nan, -1e-9, "a millimetre", np.zeros(3), None)
WRONG = [(name, value, "expected a number ≥ 0") for name in NUMBERS for value in NO_NUMBERS]
WRONG += [("drift", value, "expected True or False") for value in (1.0, 0, "on", None)]


@every(("name", "value", "says"), [*WRONG, ("memory", np.inf, "expected a finite number")])
def test_wrong_ground_settings_are_refused_by_name(name, value, says):
    with pytest.raises(InputError, match=rf"^ground\.{name}: {says}"):
        Ground.rigid(**{name: value})
