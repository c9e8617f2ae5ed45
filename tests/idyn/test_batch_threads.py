"""Threads of a batch: interrupted calls, forked processes, more threads than cores; and malformed guesses."""

import multiprocessing
import os
import threading

import msgspec
import numpy as np
import pytest
from fast import every
from scenes import DT, PLAIN, random_scene, walker

from idyn import Batch, ContactSet, InputError, State, make_law, predict, predict_batch
from idyn.batch.arrays import TOUCH
from idyn.batch.members import CHUNK
from idyn.model.robot import Robot

COUNT = 6 * CHUNK


def states(name="solo12", count=COUNT):
    """A new robot, and states about its stance with four feet on the ground."""
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
    try:
        assert here.poll(60)
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
@every("wrong", ["none", "flat", "a list", "a row too few", "of floats"])
def test_a_malformed_basis_starts_cold_as_in_single_predictions(law, wrong):
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
