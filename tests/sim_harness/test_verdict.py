"""Verdicts about short real runs, and about such runs with one thing changed."""

import msgspec
import numpy as np
import pytest
from fast import every, full
from known_ends import ARM, STAND, TROT

from controllers.planners.path import PathSettings
from controllers.planners.trajectory import HoldSettings, WalkSettings
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from sim_harness.measure.fall import progress_of
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Ending, Task, judge
from sim_harness.run.experiment import run_in_process, task_of
from sim_harness.run.plan import load_plan

DT = 1e-3


def run_of(folder, toml):
    path = folder / "experiment.toml"
    path.write_text(toml, encoding="utf-8")
    plan = load_plan(str(path))
    return plan, run_in_process(plan, "", lambda *_: None)


def judged(plan, trace, **task):
    robot, stance = load_robot(plan.controller.robot)
    return judge(trace, robot, msgspec.structs.replace(task_of(plan.controller, stance), **task), ticks=plan.ticks, dt=DT)


def refused_from(trace: Trace, row: int, *codes: str) -> Trace:
    """The trace with refusals from a row on, by turns with each of the codes."""
    answer = trace.answer.copy()
    answer[row:] = len(trace.answers) + np.arange(len(trace) - row) % len(codes)
    return msgspec.structs.replace(trace, answer=answer, answers=(*trace.answers, *(f"refused: {code}" for code in codes)))


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("stand"), STAND.replace("2.0", "0.3"))


def test_a_whole_run_is_good_and_a_shorter_one_failed(stand):
    plan, run = stand
    assert (run.summary.verdict.ending, run.summary.verdict.text, run.summary.verdict.at) == (Ending.STOOD, "stood 0.3 s", None)
    rows = {name for name in run.trace.__struct_fields__ if len(getattr(run.trace, name)) == len(run.trace)}
    cut = msgspec.structs.replace(run.trace, **{name: getattr(run.trace, name)[:200] for name in rows})
    short = judged(plan, cut)
    assert (short.ending, short.good, short.upright, short.at) == (Ending.FAILED, False, False, pytest.approx(0.2))


def test_refusals_at_the_end_have_their_reason_and_their_begin(stand):
    plan, run = stand
    refused = judged(plan, refused_from(run.trace, 120, "stale_state: expected an age of at most 10 ms"))
    assert (refused.ending, refused.at) == (Ending.REFUSED, pytest.approx(0.12))
    assert refused.text == "was refused (stale_state: expected an age of at most 10 ms) at 0.12 s"
    assert (refused.good, refused.upright) == (False, False)


def test_a_refusal_that_ends_is_none(stand):
    plan, run = stand
    trace = refused_from(run.trace, 120, "duplicate: x")
    answer = trace.answer.copy()
    answer[200:] = run.trace.answer[200:]
    assert judged(plan, msgspec.structs.replace(trace, answer=answer)).ending is Ending.STOOD


def test_a_latch_is_a_stop_after_the_first_torque_and_a_refusal_before(stand):
    plan, run = stand
    latched = "latched_fault: latched (base turns at 6.2 rad/s, limit 6); send reset when the robot is at rest"
    why = "(base turns at 6.2 rad/s, limit 6)"
    cases = (
        (0, Ending.REFUSED, f"was refused {why} at 0.00 s"),
        (120, Ending.STOPPED, f"was stopped by the server {why} at 0.12 s"),
    )
    for row, ending, text in cases:
        verdict = judged(plan, refused_from(run.trace, row, latched))
        assert (verdict.ending, verdict.text) == (ending, text)


def test_a_fall_is_named_before_its_cause_and_a_later_stop_is_no_cause(stand):
    plan, run = stand
    q = run.trace.q.copy()
    q[200:, 2] *= 0.4
    down = msgspec.structs.replace(run.trace, q=q)
    latched = "latched_fault: latched (x); send reset when the robot is at rest"
    assert judged(plan, refused_from(down, 150, latched)).text == "fell at 0.20 s, was stopped by the server (x) at 0.15 s"
    assert judged(plan, refused_from(down, 250, latched)).text == "fell at 0.20 s"
    assert judged(plan, down).ending is Ending.FELL


def test_a_robot_that_sits_down_and_rises_again_fell(stand):
    """One state is enough: later rows do not make it good."""
    plan, run = stand
    q = run.trace.q.copy()
    q[100, 2] *= 0.4
    assert judged(plan, msgspec.structs.replace(run.trace, q=q)).text == "fell at 0.10 s"


def test_a_foot_that_moves_over_the_ground_slid_unless_the_robot_is_steered(stand):
    plan, run = stand
    q = run.trace.q.copy()
    q[:, 1] += np.linspace(0.0, 0.04, len(q))
    moved = msgspec.structs.replace(run.trace, q=q)
    slid = judged(plan, moved)
    assert (slid.ending, slid.upright) == (Ending.SLID, True)
    assert slid.at == pytest.approx(0.225, abs=0.01)
    assert judged(plan, moved, steered=True).ending is Ending.STOOD
    q[:, 1] = run.trace.q[:, 1] + np.linspace(0.0, 0.02, len(q))
    assert judged(plan, msgspec.structs.replace(run.trace, q=q)).ending is Ending.STOOD


def test_a_reference_that_moves_must_be_seen_in_the_robot(stand):
    plan, run = stand
    q_ref = run.trace.q_ref.copy()
    q_ref[:, 4] += 0.1 * np.sin(np.linspace(0, 6, len(q_ref)))
    verdict = judged(plan, msgspec.structs.replace(run.trace, q_ref=q_ref))
    robot, _ = load_robot(plan.controller.robot)
    assert (verdict.ending, verdict.text) == (Ending.NEVER_MOVED, f"never moved (joint {robot.joint_names[4]})")


def test_an_arm_that_ends_beside_its_reference_did_not_hold(tmp_path):
    plan, run = run_of(tmp_path, ARM.replace("0.6", "0.2"))
    assert run.summary.verdict.ending is Ending.HELD
    q_ref = run.trace.q_ref.copy()
    q_ref[-20:, 2] += 0.2
    verdict = judged(plan, msgspec.structs.replace(run.trace, q_ref=q_ref))
    robot, _ = load_robot("arm")
    assert verdict.ending is Ending.LET_GO
    assert robot.joint_names[2] in verdict.text


def straight(speed, seconds, turn=0.0):
    """Poses of the quadruped's base along x, and about z."""
    _, stance = load_robot("quadruped")
    t = np.arange(round(seconds / DT)) * DT
    q = np.tile(stance, (len(t), 1))
    q[:, 0] += speed * t
    q[:, 3:7] = np.stack([0 * t, 0 * t, np.sin(0.5 * turn * t), np.cos(0.5 * turn * t)], axis=1)
    return t, q


def test_progress_along_a_velocity_and_about_the_vertical():
    """An ideal point begins after `start` and is allowed half a second less."""
    t, q = straight(0.2, 4.0)
    made, expected, unit, _ = progress_of(WalkSettings(start=0.5, path=PathSettings(velocity=(0.2, 0.0, 0.0))), t, q)
    assert (made, expected, unit) == (pytest.approx(0.8, abs=5e-3), pytest.approx(0.6, abs=5e-3), "m")
    backward = progress_of(WalkSettings(path=PathSettings(velocity=(-0.2, 0.0, 0.0))), t, q)
    assert backward.made == pytest.approx(-0.8, abs=5e-3)
    t, q = straight(0.0, 8.0, turn=1.0)
    round_and_round = progress_of(WalkSettings(path=PathSettings(velocity=(0.0, 0.0, 1.0))), t, q)
    assert (round_and_round.made, round_and_round.unit) == (pytest.approx(8.0, abs=0.02), "rad")


def test_progress_between_waypoints_counts_legs_and_the_covered_part_of_the_next():
    t, q = straight(0.1, 6.0)
    path = PathSettings(waypoints=((0.3, 0.0), (0.9, 0.0)), speed=0.1)
    made, _, unit, _ = progress_of(WalkSettings(path=path), t, q)
    assert (made, unit) == (pytest.approx(0.6, abs=2e-3), "m")
    short = PathSettings(waypoints=((0.3, 0.0),), speed=0.1)
    made, expected, _, _ = progress_of(WalkSettings(path=short), t, q)
    assert made == pytest.approx(0.3, abs=1e-9)
    assert expected == pytest.approx(0.3, abs=0.035)  # within the tolerance of a waypoint


@every(
    ("speed", "ending", "text"),
    [
        (0.2, Ending.WALKED, "walked 0.80 m"),
        (0.1, Ending.WALKED_PART, "walked 0.40 of 0.70 m"),
        (0.01, Ending.NEVER_MOVED, "never moved (0.04 of 0.70 m)"),
        (-0.2, Ending.NEVER_MOVED, "never moved (-0.80 of 0.70 m)"),
    ],
)
def test_a_walk_is_judged_by_its_share_of_the_path(speed, ending, text, stand):
    _, run = stand
    t, q = straight(speed, 4.0)
    trace = longer(run.trace, t, q)
    robot, _ = load_robot("quadruped")
    walk = WalkSettings(path=PathSettings(velocity=(0.2, 0.0, 0.0)))
    verdict = judge(trace, robot, Task(Flat(), reference=walk), ticks=4000, dt=DT)
    assert (verdict.ending, verdict.text) == (ending, text)
    steered = judge(trace, robot, Task(Flat(), reference=walk, steered=True), ticks=4000, dt=DT)
    assert steered.ending is (Ending.STOOD if abs(speed) < 0.02 else Ending.WALKED)
    still = judge(trace, robot, Task(Flat(), reference=HoldSettings()), ticks=4000, dt=DT)
    assert still.ending is Ending.SLID


def longer(trace, t, q, **fields):
    """The trace with other times and states; what belongs to each tick is repeated."""
    ticks = [name for name in trace.__struct_fields__ if len(getattr(trace, name)) == len(trace) and name not in ("t", "q")]
    rows = {name: np.resize(getattr(trace, name), (len(t), *getattr(trace, name).shape[1:])) for name in ticks}
    return msgspec.structs.replace(trace, t=t, q=q, **(rows | fields))


def circling(speed, seconds, turn):
    """Poses of the quadruped's base along a circle, along which it looks."""
    t, q = straight(0.0, seconds, turn)
    q[:, :2] = speed / turn * np.stack([np.sin(turn * t), 1.0 - np.cos(turn * t)], axis=1)
    return t, q


WALKS = (WalkSettings(path=PathSettings(velocity=(0.2, 0.0, 0.0))), TwoLegsSettings(commands=((10.0, 0.2, 0.0, 0.0),)))


@every("walk", WALKS)
@every(
    ("poses", "ending"),
    [(straight(0.2, 4.0), Ending.WALKED), (straight(-0.2, 4.0), Ending.NEVER_MOVED), (circling(0.2, 4.0, 0.3), Ending.SPUN)],
)
def test_a_walk_is_judged_in_the_world_not_in_the_frame_of_the_robot(walk, poses, ending, stand):
    robot, _ = load_robot("quadruped")
    assert judge(longer(stand[1].trace, *poses), robot, Task(Flat(), reference=walk), ticks=4000, dt=DT).ending is ending


def test_who_walks_ahead_and_is_carried_aside_left_its_path(stand):
    robot, _ = load_robot("quadruped")
    t, q = straight(0.2, 4.0)
    q[:, 1] += 0.15 * t
    verdict = judge(longer(stand[1].trace, t, q), robot, Task(Flat(), reference=WALKS[0]), ticks=4000, dt=DT)
    assert verdict.ending is Ending.DRIFTED
    assert "(walked 0.80 m)" in verdict.text


BACK = TwoLegsSettings(commands=((2.0, 0.2, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), (2.0, -0.2, 0.0, 0.0)))


@every(
    ("walk", "along", "aside", "ending"),
    [
        (WALKS[1], 0.7, 0.0, Ending.WALKED),
        (WALKS[1], 0.7, 3.0, Ending.DRIFTED),
        (WALKS[1], 2.5, 0.0, Ending.DRIFTED),
        (BACK, 0.4, 0.0, Ending.WALKED),
        (BACK, 0.0, 0.0, Ending.NEVER_MOVED),
    ],
)
def test_a_walk_on_two_legs_is_judged_by_where_it_was_and_where_it_ends(walk, along, aside, ending, stand):
    robot, _ = load_robot("quadruped")
    seconds = 5.0 if walk is BACK else 4.0
    t, q = straight(0.0, seconds)
    s = t / seconds
    q[:, 0] = along * (np.sin(np.pi * s) if walk is BACK else s)
    q[:, 1] = aside * s
    trace = longer(stand[1].trace, t, q)
    assert judge(trace, robot, Task(Flat(), reference=walk), ticks=len(t), dt=DT).ending is ending


def test_a_base_that_moves_over_feet_without_load_drifted_and_one_that_turns_spun(stand):
    plan, run = stand
    share = np.linspace(0.0, 1.0, len(run.trace))
    q, v_free = run.trace.q.copy(), np.where(np.isnan(run.trace.simulated), np.nan, 0.0)
    q[:, 0] += 0.2 * share
    away = judged(plan, msgspec.structs.replace(run.trace, q=q, simulated=v_free))
    assert (away.ending, away.at) == (Ending.DRIFTED, pytest.approx(0.15, abs=2e-3))
    assert away.text.startswith("drifted 0.20 m and 0.00 m in height (base")
    q = run.trace.q.copy()
    q[:, 5], q[:, 6] = np.sin(0.5 * share), np.cos(0.5 * share)
    turned = judged(plan, msgspec.structs.replace(run.trace, q=q))
    assert (turned.ending, turned.good, turned.at) == (Ending.SPUN, False, pytest.approx(0.15, abs=2e-3))


def test_what_carries_a_robot_is_known_of_a_world_only(stand):
    """In the air a world has no contact, and says so; a log without sensed forces says nothing."""
    plan, run = stand
    nothing = np.full_like(run.trace.simulated, np.nan)
    assert judged(plan, msgspec.structs.replace(run.trace, simulated=nothing)).text == "hung: no contact carries its weight"
    unknown = msgspec.structs.replace(run.trace, simulated=nothing, beside=np.full_like(run.trace.beside, np.nan))
    assert judged(plan, unknown).ending is Ending.STOOD
    beside = msgspec.structs.replace(run.trace, beside=0.3 * np.nan_to_num(run.trace.simulated[..., 0]))
    assert judged(plan, beside).text == "hung: bodies that are no feet carry 30% of its weight"


def test_slips_have_their_distance_and_the_friction_used_beside_the_available(stand):
    """A base at 0.2 m/s on legs that do not move: each foot slides by 0.2 m in a second."""
    t, q = straight(0.2, 1.0)
    trace = longer(stand[1].trace, t, q)
    simulated, v = np.nan_to_num(trace.simulated), np.zeros_like(trace.v)
    v[:, 0], simulated[..., 1] = 0.2, 0.6 * simulated[..., 0]
    simulated[400:500] = 0.0  # a step: without load nothing slips
    robot, _ = load_robot("quadruped")
    slides = msgspec.structs.replace(trace, v=v, simulated=simulated)
    said = judge(slides, robot, Task(Flat(), steered=True), ticks=1000, dt=DT).noted
    assert len(said) == 4
    assert said[0].startswith("LF_FOOT slipped 2 times, up to 0.10 m, first at 0.15")
    assert all(line.endswith(" with friction 0.6 of 0.8") for line in said)
    assert judge(slides, robot, Task(Flat()), ticks=1000, dt=DT).noted == ()


def test_only_answers_of_other_laws_count_as_substituted(stand):
    _, run = stand
    answer = np.repeat([0, 1, 2, 3], 75)
    trace = msgspec.structs.replace(run.trace, answer=answer, answers=("", "torque", "law coulomb", "law cone"))
    assert (trace.substituted("coulomb"), trace.substituted("cone"), trace.substituted("pid")) == (0.25, 0.25, 0.5)
    assert run.summary.substituted == 0.0


def test_laws_that_may_fail_are_laws_of_the_experiment(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(STAND + 'may_fail = ["coulomb"]\n')
    plan = load_plan(str(path))
    assert plan.as_expected("coulomb", good=False)
    assert not plan.as_expected("cone", good=False)
    path.write_text(STAND + 'may_fail = ["convex"]\n')
    with pytest.raises(ConfigError, match=r"experiment.may_fail: expected names of its laws \(coulomb\), got 'convex'"):
        load_plan(str(path))


@full
def test_a_walking_robot_makes_steps_that_are_no_slides(tmp_path):
    _, run = run_of(tmp_path, TROT.replace("3.0", "1.5"))
    assert run.summary.verdict.ending is Ending.WALKED
