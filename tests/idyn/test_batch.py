"""Batches: each member equals its single prediction to the last bit, on any number of threads."""

import multiprocessing
import os
import threading

import msgspec
import numpy as np
import pytest
from fast import every, every_row, fast
from hard import degenerate_scene
from scenes import DT, LITERAL, PLAIN, batch_of, random_scene, standing_scene, walker

import idyn.batch.members
from controllers.robot.load import load_robot
from idyn import LAWS, Batch, ContactSet, Ground, InputError, Options, Robot, State, make_law, predict, predict_batch
from idyn.batch.arrays import TOUCH
from idyn.batch.members import CHUNK
from idyn.contact.soft import SoftContact
from idyn.types import Consistency, Guess, Selection

YIELDING = Ground.rigid(relaxation=0.02, memory=0.01, recovery_speed=0.0)
ROBOT = "solo12"


def kernels(law):
    return [rung for rung in law.rungs if rung.kernel is not None]


def mixed(count):
    """States of one robot with four contacts: standing, wild and degenerate ones in turn."""
    robot, scenes, rng = walker(ROBOT)[0], [], np.random.default_rng(5)
    for seed in range(1000):
        kind = len(scenes) % 3
        scene = (standing_scene(ROBOT), random_scene(ROBOT, seed, n=4), degenerate_scene(seed))[kind]
        if len(scene.contacts) == 4:  # other walkers' states are degenerate for this one, too
            demand = rng.normal(size=robot.na) if kind == 0 else scene.q_ddot
            scenes.append(msgspec.structs.replace(scene, robot=robot, q_ddot=demand))
        if len(scenes) == count:
            return scenes
    raise AssertionError("too few of four contacts")


def alone(robot, batch, i, law, options, guess=None):
    """Single prediction for member i of a batch that has a row of every array for each member."""
    c = batch.contacts
    contacts = ContactSet(**{name: getattr(c, name)[i].copy() for name in TOUCH}, keys=c.keys)
    applied, preferred = (None if rows is None else rows[i].copy() for rows in (batch.applied, batch.preferred))
    state = State(q=batch.state.q[i].copy(), v=batch.state.v[i].copy())
    settings = {"law": law, "dt": DT, "options": options, "guess": guess, "applied": applied, "preferred": preferred}
    return predict(robot, state, contacts, batch.q_ddot[i].copy(), **settings)


def assert_all_same(robot, batch, law, options, threads=2):
    """Compare without a guess, and twice with that of the last batch. Return how many members compiled code solved alone."""
    guess, guesses, compiled = None, [None] * len(batch.q_ddot), 0
    for _ in range(3):
        answer = predict_batch(robot, batch, law=law, dt=DT, options=options, guess=guess, threads=threads)
        singles = [alone(robot, batch, i, law, options, before) for i, before in enumerate(guesses)]
        for i, single in enumerate(singles):
            assert_same(answer.member(i), single)
            for name in ("tau", "force", "v_plus", "p", "status"):
                assert np.array_equal(getattr(answer, name)[i], getattr(single, name), equal_nan=True), name
            assert np.array_equal(answer.residuals[i], msgspec.structs.astuple(single.residuals), equal_nan=True)
            assert answer.ways[answer.way[i]] == (single.law, single.rung)
        guess, guesses = answer.guess, [single.guess for single in singles]
        compiled += len(answer) - len(answer.singles)
    return compiled


def assert_same(one, other):
    """Two predictions, guesses and all."""
    for field in one.__struct_fields__:
        a, b = getattr(one, field), getattr(other, field)
        if isinstance(a, Guess):
            assert_same(a, b)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes(), field
        else:
            assert a == b, field


@pytest.mark.parametrize("selection", fast(Selection, Selection.TORQUE))
@every("law", fast(LAWS, "coulomb", "exact-cone", "convex", "sap"))
def test_members_equal_single_predictions(law, selection):
    """Every law and selection, with degenerate members; rigid and yielding ground and each consistency option in turn."""
    kind = list(Selection).index(selection)
    law, scenes = make_law(law), mixed(12)
    ground, consistency = YIELDING if kind % 2 else LITERAL, list(Consistency)[kind % 4]
    options = Options.paper(selection=selection, consistency=consistency, ground=ground, bounded=kind == 4)
    preferred = np.random.default_rng(1).normal(size=(len(scenes), 4, 3))
    batch = batch_of(scenes, preferred=preferred if kind % 2 == 0 else None)
    compiled = assert_all_same(scenes[0].robot, batch, law, options)
    assert (compiled > 0) == bool(kernels(law))


def test_contact_moments_of_members_equal_single_predictions():
    """Law `mujoco` with friction against turning."""
    scenes = mixed(6)
    law = make_law("mujoco", contact=SoftContact(condim=6))
    assert assert_all_same(scenes[0].robot, batch_of(scenes), law, Options.paper(ground=LITERAL))
    answer = predict_batch(scenes[0].robot, batch_of(scenes), law=law, dt=DT)
    assert answer.moment.shape == (6, 4, 3)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_answer_does_not_depend_on_threads_and_chunks(monkeypatch, threads):
    scenes = mixed(30)
    robot, batch, law = scenes[0].robot, batch_of(scenes), make_law("coulomb")
    expected = predict_batch(robot, batch, law=law, dt=DT, threads=1)
    monkeypatch.setattr(idyn.batch.members, "CHUNK", 7)
    robot.scratch.clear()
    answer = predict_batch(robot, batch, law=law, dt=DT, threads=threads)
    robot.scratch.clear()
    for i in range(len(answer)):
        assert_same(answer.member(i), expected.member(i))


@every("given", ["nothing", "one for all", "its own"])
def test_shared_states_and_guesses_equal_single_predictions(given):
    """Arrays without a row for each member are shared, guesses too. Neighbours with equal state and contacts share terms."""
    scene, other, rng = standing_scene(ROBOT), random_scene(ROBOT, 3, n=4), np.random.default_rng(3)
    robot, law, options = scene.robot, make_law("coulomb"), Options.paper(ground=YIELDING)
    demands = rng.normal(size=(40, robot.na))
    batch = Batch(state=scene.state, contacts=scene.contacts, q_ddot=demands)
    guess = predict(robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options).guess
    if given == "its own":
        guess = predict_batch(robot, batch, law=law, dt=DT, options=options).guess
    guess = None if given == "nothing" else guess
    answer = predict_batch(robot, batch, law=law, dt=DT, options=options, guess=guess)
    for i, demand in enumerate(demands):
        before = guess.member(i) if given == "its own" else guess
        alone = predict(robot, scene.state, scene.contacts, demand, law=law, dt=DT, options=options, guess=before)
        assert_same(answer.member(i), alone)
    states = [other if k // 5 % 2 else scene for k in range(40)]
    contacts = [(scene if k // 2 % 2 else other).contacts for k in range(40)]
    scenes = [msgspec.structs.replace(states[k], contacts=contacts[k], q_ddot=demands[k]) for k in range(40)]
    assert_all_same(robot, batch_of(scenes), law, options)


def test_contacts_may_change_between_batches():
    """The last bases and forces are assigned by contact key."""
    scene, law, options = standing_scene(ROBOT), make_law("no-slip"), Options.paper(ground=YIELDING)
    robot, demands, guess, before = scene.robot, np.random.default_rng(4).normal(size=(6, scene.robot.na)), None, [None] * 6
    for rows in ([0, 1, 2, 3], [0, 3], [3, 0, 1], [], [1], [2, 1, 3, 0]):
        contacts = scene.contacts.take(np.array(rows, dtype=np.int64))
        batch = Batch(state=scene.state, contacts=contacts, q_ddot=demands)
        answer = predict_batch(robot, batch, law=law, dt=DT, options=options, guess=guess)
        settings, given = {"law": law, "dt": DT, "options": options}, zip(demands, before, strict=True)
        singles = [predict(robot, scene.state, contacts, demand, guess=one, **settings) for demand, one in given]
        for i, single in enumerate(singles):
            assert_same(answer.member(i), single)
        guess, before = answer.guess, [single.guess for single in singles]


@every("name", ["fivebar", "arm", "g1"])
def test_members_of_other_robots_equal_single_predictions(name):
    """Closed chains, a fixed base, a humanoid; with forces applied."""
    robot, q = load_robot(name)
    rng, count = np.random.default_rng(6), 10
    q = np.array([robot.integrate(q, 0.01 * rng.normal(size=robot.nv)) for _ in range(count)])
    n = min(4, len(robot.spheres.keys))
    contacts = ContactSet(
        bodies=np.tile(robot.spheres.joints[:n], (count, 1)),
        others=np.zeros((count, n), np.int64),
        points=rng.normal(size=(count, n, 3)),
        normals=np.tile([0.0, 0.0, 1.0], (count, n, 1)),
        tangents=np.tile([1.0, 0.0, 0.0], (count, n, 1)),
        mu=np.full((count, n), 0.7),
        gaps=np.zeros((count, n)),
        radii=np.tile(robot.spheres.radii[:n], (count, 1)),
        keys=robot.spheres.keys[:n],
    )
    state = State(q=q, v=0.1 * rng.normal(size=(count, robot.nv)))
    demands, applied = rng.normal(size=(count, robot.na)), rng.normal(size=(count, robot.nv))
    batch = Batch(state=state, contacts=contacts, q_ddot=demands, applied=applied)
    assert_all_same(robot, batch, make_law("coulomb"), Options.paper(ground=YIELDING))


def test_batches_without_members_and_without_contacts_are_answered():
    scene, law = standing_scene(ROBOT), make_law("coulomb")
    nobody = Batch(state=scene.state, contacts=scene.contacts, q_ddot=np.zeros((0, scene.robot.na)))
    none = predict_batch(scene.robot, nobody, law=law, dt=DT)
    assert len(none) == 0
    assert none.force.shape == (0, 4, 3)
    flying = batch_of([msgspec.structs.replace(scene, contacts=scene.contacts.take(np.zeros(0, np.int64)))] * 3)
    assert_all_same(scene.robot, flying, law, Options.paper())


MALFORMED = [
    ("q of member|q\\[", lambda b: b.state.q.__setitem__((3, 0), np.nan)),
    ("q\\[3:7\\] of member 3", lambda b: b.state.q.__setitem__((3, slice(3, 7)), 0.7)),
    ("v\\[5\\] of member 3", lambda b: b.state.v.__setitem__((3, 5), np.inf)),
    ("q_ddot\\[2\\] of member 3", lambda b: b.q_ddot.__setitem__((3, 2), np.nan)),
    ("contacts.mu\\[1\\] of member 3", lambda b: b.contacts.mu.__setitem__((3, 1), -1.0)),
    ("contacts.normals\\[2\\] of member 3", lambda b: b.contacts.normals.__setitem__((3, 2), 1.0)),
    ("contacts.bodies\\[0\\] of member 3", lambda b: b.contacts.bodies.__setitem__((3, 0), 99)),
]


@every("law", ["coulomb", "convex"])
@every(("field", "spoil"), MALFORMED)
def test_malformed_values_are_named_with_their_member(law, field, spoil):
    batch = batch_of([standing_scene(ROBOT)] * 5)
    spoil(batch)
    with pytest.raises(InputError, match=field):
        predict_batch(walker(ROBOT)[0], batch, law=make_law(law), dt=DT)


def test_repeated_keys_and_malformed_preferred_forces_are_named():
    scene = standing_scene(ROBOT)
    batch, keys = batch_of([scene] * 5), scene.contacts.keys
    repeated = msgspec.structs.replace(batch.contacts, keys=(*keys[:3], keys[0]))
    forces = np.zeros((5, 4, 3))
    forces[3, 2, 1] = np.nan
    for field, changes in ((r"contacts\.keys", {"contacts": repeated}), (r"preferred\[2, 1\]", {"preferred": forces})):
        with pytest.raises(InputError, match=field):
            predict_batch(scene.robot, msgspec.structs.replace(batch, **changes), law=make_law("coulomb"), dt=DT)


@every_row(
    ("q:", {"state": State(q=np.zeros((5, 18)), v=np.zeros((5, 18)))}),
    ("v: expected 5 rows, as in `q`, got 4", {"state": State(q=np.zeros((5, 19)), v=np.zeros((4, 18)))}),
    ("q_ddot: expected an array float64", {"q_ddot": np.zeros((5, 12), complex)}),
    ("q_ddot: .* got list", {"q_ddot": [[0.0] * 12, [0.0]]}),
    ("applied", {"applied": np.zeros((5, 12))}),
    ("preferred", {"preferred": np.zeros((5, 3))}),
)
def test_arrays_of_a_wrong_shape_are_named(field, changes):
    scene = standing_scene(ROBOT)
    batch = msgspec.structs.replace(batch_of([scene] * 5), **changes)
    with pytest.raises(InputError, match=field):
        predict_batch(scene.robot, batch, law=make_law("coulomb"), dt=DT)


def test_lists_and_float32_give_the_same_answers():
    scene = standing_scene(ROBOT)
    batch, demands = batch_of([scene] * 5), np.arange(60.0).reshape(5, 12)
    answers = [
        predict_batch(scene.robot, msgspec.structs.replace(batch, q_ddot=q_ddot), law="coulomb", dt=DT)
        for q_ddot in (demands, demands.tolist(), demands.astype(np.float32))
    ]
    for other in answers[1:]:
        np.testing.assert_array_equal(other.tau, answers[0].tau)


def test_malformed_guesses_and_settings_are_named():
    scene, law = standing_scene(ROBOT), make_law("coulomb")
    robot, batch = scene.robot, batch_of([scene] * 5)
    guess = predict_batch(robot, batch, law=law, dt=DT).guess
    for named, changes in (
        (r"guess\.tau: expected 5 rows", {"guess": msgspec.structs.replace(guess, tau=guess.tau[:4])}),
        (r"guess\.force", {"guess": msgspec.structs.replace(guess, force=guess.force[..., :2])}),
        (r"^guess: .*BatchGuess", {"guess": "last"}),
        (r"^guess\.others: .*0 to 4", {"guess": msgspec.structs.replace(guess, others={7: guess.member(0)})}),
        ("dt", {"dt": np.nan}),
        ("threads", {"threads": 0}),
    ):
        with pytest.raises(InputError, match=named):
            predict_batch(robot, batch, **{"law": law, "dt": DT} | changes)
    with pytest.raises(InputError, match="batch"):
        predict_batch(robot, Batch(state=scene.state, contacts=scene.contacts, q_ddot=scene.q_ddot), law=law, dt=DT)


def test_views_and_read_only_arrays_give_the_same_answer():
    scenes, law = mixed(6), make_law("coulomb")
    robot, batch = scenes[0].robot, batch_of(mixed(6))
    expected = predict_batch(robot, batch, law=law, dt=DT)
    batch.q_ddot.flags.writeable = False
    state = State(q=np.asfortranarray(batch.state.q), v=np.repeat(batch.state.v, 2, axis=0)[::2])
    odd = msgspec.structs.replace(batch, state=state)
    assert predict_batch(robot, odd, law=law, dt=DT).tau.tobytes() == expected.tau.tobytes()


# -- threads, forked processes, and malformed guesses ------------------------------------------------------------------


COUNT = 6 * CHUNK


def states(name="solo12", count=COUNT):
    """A new robot, and states about its stance with four feet on the ground."""
    scenes = [random_scene(name, seed, n=4, mu=0.6) for seed in range(24)]
    return walker(name)[0].variant(), batch_of([scenes[k % len(scenes)] for k in range(count)])


def torques(robot, batch, **more):
    return predict_batch(robot, batch, law=make_law("coulomb"), dt=DT, options=PLAIN, **more).tau


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_after_an_interrupted_call_the_next_one_gives_the_same_answers(monkeypatch, in_main_thread):
    """The exception comes in the caller's thread or in another one, while both work."""
    robot, batch = states()
    expected, terms_of, raised = torques(robot, batch, threads=1), Robot.terms_of, threading.Event()

    def interrupted(*arguments):
        if (threading.current_thread() is threading.main_thread()) == in_main_thread:
            raised.set()
            raise KeyboardInterrupt
        assert raised.wait(60.0)
        terms_of(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Robot, "terms_of", interrupted)
        patch.setattr(os, "cpu_count", lambda: 2)
        with pytest.raises(KeyboardInterrupt):
            torques(robot, batch, threads=2)
    assert torques(robot, batch, threads=2).tobytes() == expected.tobytes()


def _forked(robot, batch, pipe):
    """Send the torques computed in a forked process."""
    pipe.send(torques(robot, batch, threads=2).tobytes())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    robot, batch = states(count=2 * CHUNK)
    expected = torques(robot, batch, threads=2)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_forked, args=(robot, batch, there))
    process.start()
    there.close()  # so that the end of the process ends the wait
    try:
        assert here.recv() == expected.tobytes()
    finally:
        process.kill()
        process.join()


@every("count", [2, COUNT])
def test_at_most_one_thread_is_started_for_each_core(count):
    robot, batch = states(count=count)
    expected = torques(robot, batch, threads=1)
    before = threading.active_count()
    assert torques(robot, batch, threads=3000).tobytes() == expected.tobytes()
    assert threading.active_count() <= before + os.cpu_count()


@every("law", ["coulomb", "exact-cone"])
@every("wrong", ["another law", "none", "flat", "a list", "a row too few", "of floats"])
def test_a_guess_of_another_law_or_with_a_malformed_basis_starts_cold(law, wrong):
    """As in single predictions."""
    robot, batch = states(count=4)
    law = make_law(law)
    guess = predict_batch(robot, batch, law=law, dt=DT, options=PLAIN).guess
    n, width = 4, law.basis_width
    short, floats = np.zeros((4, n - 1, width), dtype=bool), np.zeros((4, n, width))
    bases = {"another law": guess.basis, "none": None, "flat": np.zeros(n, dtype=bool), "a list": []}
    basis = (bases | {"a row too few": short, "of floats": floats})[wrong]
    named = "other" if wrong == "another law" else guess.law
    spoiled = msgspec.structs.replace(guess, law=named, basis=basis, others={})
    never = msgspec.structs.replace(PLAIN, warm_start=False)
    cold = predict_batch(robot, batch, law=law, dt=DT, options=never, guess=guess)
    answer = predict_batch(robot, batch, law=law, dt=DT, options=PLAIN, guess=spoiled)
    for i in range(4):
        own = basis if basis is None or wrong in ("flat", "a list") else basis[i]
        single = alone(robot, batch, i, law, PLAIN, msgspec.structs.replace(guess.member(i), law=named, basis=own))
        assert (answer.member(i).rung, answer.tau[i].tobytes()) == (single.rung, single.tau.tobytes())
        assert answer.member(i).rung == cold.member(i).rung


def test_negative_member_indices_and_named_rungs():
    robot, batch = states(count=5)
    answer = predict_batch(robot, batch, law=make_law("exact-cone"), dt=DT)
    assert answer.member(-1).guess.law == answer.member(4).guess.law
    assert answer.member(-1).tau.tobytes() == answer.tau[4].tobytes()
    with pytest.raises(IndexError):
        answer.member(5)
    assert all(law and rung for law, rung in answer.ways)
