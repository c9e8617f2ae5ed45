"""Who works on a batch: calls broken off, forked processes, more threads than there are cores, guesses that are none."""

import multiprocessing
import os

import msgspec
import numpy as np
import pytest
from scenes import DT, PLAIN, random_scene, walker

import idyn.batch.workers
from idyn import Batch, ContactSet, InputError, State, make_law, predict, predict_batch
from idyn.batch.arrays import TOUCH
from idyn.batch.workers import CHUNK, Worker, pool_for

COUNT = 6 * CHUNK


def states(name="solo12", count=COUNT):
    """A robot of its own, and states about its stance, four feet on the ground."""
    robot, scenes = walker(name)[0].variant(), [random_scene(name, seed, n=4, mu=0.6) for seed in range(24)]
    rows = np.arange(count) % len(scenes)
    touch = {each: np.array([getattr(scene.contacts, each) for scene in scenes])[rows] for each in TOUCH}
    return robot, Batch(
        state=State(q=np.array([s.state.q for s in scenes])[rows], v=np.array([s.state.v for s in scenes])[rows]),
        contacts=ContactSet(**touch, keys=scenes[0].contacts.keys),
        q_ddot=np.array([s.q_ddot for s in scenes])[rows],
    )


def torques(robot, batch, **more):
    return predict_batch(robot, batch, law=make_law("coulomb"), dt=DT, options=PLAIN, **more).tau


@pytest.mark.parametrize("where", ["the caller", "another thread"])
def test_an_interrupted_call_leaves_no_thread_running(monkeypatch, where):
    """Whoever it happens to, while others are at work: the next call has workers of its own, and the same answers."""
    robot, batch = states()
    expected, plain = torques(robot, batch, threads=1), Worker.work
    torques(robot, batch, threads=2)
    before = pool_for(robot, 4)._workers

    def broken(self, kept, members, repeats, chunks):
        mine = self is before[0 if where == "the caller" else 1]
        if mine:
            next(chunks)
            raise KeyboardInterrupt
        plain(self, kept, members, repeats, chunks)

    with monkeypatch.context() as patch:
        patch.setattr(Worker, "work", broken)
        patch.setattr(os, "cpu_count", lambda: 2)
        with pytest.raises(KeyboardInterrupt):
            torques(robot, batch, threads=2)
    assert pool_for(robot, 4)._workers == []
    assert torques(robot, batch, threads=2).tobytes() == expected.tobytes()


def _forked(robot, batch, pipe):
    pipe.send(torques(robot, batch, threads=2).tobytes())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    robot, batch = states(count=2 * CHUNK)
    expected = torques(robot, batch, threads=2)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_forked, args=(robot, batch, there))
    process.start()
    try:
        assert here.poll(60)
        assert here.recv() == expected.tobytes()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize(("count", "threads", "workers"), [(None, 3000, 3), (2, 3, 2)])
def test_the_answer_does_not_depend_on_the_number_of_cores(monkeypatch, count, threads, workers):
    robot, batch = states() if count is None else states(count=count)
    expected = torques(robot, batch, threads=1)
    monkeypatch.setattr(idyn.batch.workers.os, "cpu_count", lambda: 3)
    assert torques(robot, batch, threads=threads).tobytes() == expected.tobytes()
    assert len(pool_for(robot, 4)._workers) == workers


@pytest.mark.parametrize("law", ["coulomb", "exact-cone"])
@pytest.mark.parametrize("wrong", ["none", "flat", "a list", "a row too few", "of floats"])
def test_a_malformed_basis_starts_cold_as_in_single_predictions(law, wrong):
    """As `predict` has it: what a guess says is only tried."""
    robot, batch = states(count=4)
    law = make_law(law)
    guess = predict_batch(robot, batch, law=law, dt=DT, options=PLAIN).guess
    n, width = 4, law.basis_width
    basis = {
        "none": None,
        "flat": np.zeros(n, dtype=bool),
        "a list": [],
        "a row too few": np.zeros((4, n - 1, width), dtype=bool),
        "of floats": np.zeros((4, n, width)),
    }[wrong]
    spoiled = msgspec.structs.replace(guess, basis=basis, others={})
    answer = predict_batch(robot, batch, law=law, dt=DT, options=PLAIN, guess=spoiled)
    c = batch.contacts
    for i in range(4):
        contacts = ContactSet(**{name: getattr(c, name)[i] for name in TOUCH}, keys=c.keys)
        own = basis if basis is None or wrong in ("flat", "a list") else basis[i]
        one = msgspec.structs.replace(guess.member(i), basis=own)
        state = State(q=batch.state.q[i], v=batch.state.v[i])
        alone = predict(robot, state, contacts, batch.q_ddot[i], law=law, dt=DT, options=PLAIN, guess=one)
        assert answer.member(i).rung == alone.rung
        assert answer.tau[i].tobytes() == alone.tau.tobytes()


def test_negative_member_indices_and_named_rungs():
    robot, batch = states(count=5)
    answer = predict_batch(robot, batch, law=make_law("exact-cone"), dt=DT)
    assert answer.member(-1).guess.law == answer.member(4).guess.law
    assert answer.member(-1).tau.tobytes() == answer.tau[4].tobytes()
    with pytest.raises(IndexError):
        answer.member(5)
    assert all(law and rung for law, rung in answer.ways)


def test_malformed_guesses_are_named():
    robot, batch = states(count=3)
    law = make_law("coulomb")
    guess = predict_batch(robot, batch, law=law, dt=DT).guess
    with pytest.raises(InputError, match=r"^guess: .*BatchGuess"):
        predict_batch(robot, batch, law=law, dt=DT, guess="last")
    with pytest.raises(InputError, match=r"^guess\.others: .*0 to 2"):
        predict_batch(robot, batch, law=law, dt=DT, guess=msgspec.structs.replace(guess, others={7: guess.member(0)}))
