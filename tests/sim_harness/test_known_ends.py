"""Verdicts on short real runs, on such runs with one thing changed, and on runs with known ends; figures of a run."""

import math

import msgspec
import numpy as np
import pytest
import urdf
from cli import prints
from disk import written
from fast import every, every_row, full
from known_ends import AHEAD, ARM, KNOWN, STAND, TROT, WET, ended, table

from controllers.planners.path import PathSettings
from controllers.planners.trajectory import HoldSettings, WalkSettings
from controllers.planners.two_legs.walker import TwoLegsSettings
from controllers.robot.kinematics import standing
from idyn import ConfigError, ContactPoint, Description, Robot, contacts_from_geometry, load_robot
from idyn.contact.terrain import Flat, Slope, Stairs
from sim_harness.commands.main import main
from sim_harness.measure.fall import Posture, above_ground, progress_of
from sim_harness.measure.metrics import SETTLED, contact_force_error, path_error, slowness, summarise
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Ending, Task, judge
from sim_harness.run.experiment import run_in_process, run_served, task_of
from sim_harness.run.logs import logged_runs
from sim_harness.run.plan import PushSettings, load_plan, pushes_of, with_controller
from sim_harness.world.world import contact_jacobian

FULL = {"carries its box", "carries its box with smooth fingers", "is turned on ice", "has a post below its rear",
        "lies on its belly and gets up", "lies on its belly for a second"}  # fmt: skip
FAST = {"is pushed over"}
LOGGED = {"is pushed over", "is pushed on ice", "shall sway by a law that keeps it still", "walks on wet ice",
          "carries its box", "carries its box with smooth fingers", "tells a speed of 50 rad/s at rest",
          "walks along its path", "has motors of a fiftieth of their torque", "turns in place", "is turned on ice",
          "is pushed on ice while it trots in place", "is 60 % heavier than believed"}  # fmt: skip
DT = 1e-3
WALKS = (WalkSettings(path=PathSettings(velocity=(0.2, 0.0, 0.0))), TwoLegsSettings(commands=((10.0, 0.2, 0.0, 0.0),)))
BACK = TwoLegsSettings(commands=((2.0, 0.2, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), (2.0, -0.2, 0.0, 0.0)))
N = 40
FLAT = Flat()
ENDS = [pytest.param(k, id=k.what, marks=full if k.what in FULL else () if k.what in FAST else pytest.mark.long) for k in KNOWN]


def plan_in(folder, toml):
    return load_plan(str(written(folder / "experiment.toml", toml)))


def test_forty_runs_have_all_endings():
    assert len(KNOWN) >= 40
    assert len({known.what for known in KNOWN}) == len(KNOWN)
    assert {known.ending for known in KNOWN} >= set(Ending)
    rows = table({"is pushed": ("fell", 1), "waits": ("stood", 0), "sways": ("stood", 1)}).splitlines()[2:]
    assert sorted(rows) == ["| fell | 1 | is pushed |", "| stood | 0 | waits |", "| stood | 1 | sways |"]


@pytest.mark.parametrize("known", ENDS)
def test_a_run_is_named_by_its_end(known, tmp_path, capsys):
    code, verdict = ended(known, tmp_path)
    assert (verdict["ending"], code) == (known.ending, known.exit_code)
    assert known.text in verdict["text"]
    said = capsys.readouterr().out
    assert verdict["text"] in said
    assert all(line in said for line in verdict["noted"])
    assert known.noted in "".join(verdict["noted"])


@full
@pytest.mark.parametrize("known", [known for known in KNOWN if known.what in LOGGED], ids=lambda known: known.what)
def test_a_log_has_the_verdict_of_its_run(known, tmp_path, capsys):
    """The server's log of the run; a robot that fell is fallen in it, and `idyn replay` says so, too."""
    plan, log = plan_in(tmp_path, known.toml), tmp_path / "log.mcap"
    plan = with_controller(plan, {"law": plan.settings.laws[0]})
    run = run_in_process(plan, "", lambda *_: None, log=log)
    (logged,) = logged_runs(log)
    assert (logged.verdict.ending, run.summary.verdict.ending) == (known.ending, known.ending)
    assert logged.verdict.at == pytest.approx(run.summary.verdict.at, abs=1e-9)
    assert known.text in logged.verdict.text
    unslipped = [line for line in run.summary.verdict.noted if " slipped " not in line]  # no slips without sensed forces
    assert list(logged.verdict.noted) == unslipped
    assert main(["compare", str(log)]) == known.exit_code
    assert logged.verdict.text in capsys.readouterr().out
    assert logged.verdict.text in prints(capsys, "replay", str(log))


@full
def test_the_verdict_and_its_notes_are_the_same_over_the_wire_and_in_the_view(tmp_path, capsys):
    """A server in a process of its own, and the page of the run that it wrote."""
    plan = plan_in(tmp_path, TROT.replace("3.0", "1.2") + AHEAD + WET + "robot.trunk.mass_factor = 1.6\n")
    here = run_in_process(with_controller(plan, {"law": "coulomb"}), "", lambda *_: None).summary.verdict
    served = run_served(with_controller(plan, {"law": "coulomb"}), "", lambda *_: None)
    served.save(tmp_path / "run")
    there = served.summary.verdict
    assert {word for line in here.noted for word in ("slipped", "degraded") if word in line} == {"slipped", "degraded"}
    assert (there.whole, there.noted) == (here.whole, here.noted)
    assert here.whole in prints(capsys, "view", str(tmp_path / "run"))


@full
def test_a_walk_is_so_far_only_in_a_log_that_ends_early(tmp_path):
    plan, log = plan_in(tmp_path, TROT + AHEAD), tmp_path / "log.mcap"
    run_in_process(with_controller(plan, {"law": "coulomb"}), "", lambda *_: None, log=log)
    (whole,) = logged_runs(log)
    assert "so far" not in whole.verdict.text
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 9 // 10])
    (cut,) = logged_runs(log)
    assert cut.verdict.text.endswith(" m so far")


def run_of(folder, toml):
    plan = plan_in(folder, toml)
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


def test_refusals_at_the_end_have_their_reason_and_their_begin_and_earlier_ones_are_none(stand):
    plan, run = stand
    refused = judged(plan, refused_from(run.trace, 120, "stale_state: expected an age of at most 10 ms"))
    assert (refused.ending, refused.at) == (Ending.REFUSED, pytest.approx(0.12))
    assert refused.text == "was refused (stale_state: expected an age of at most 10 ms) at 0.12 s"
    assert (refused.good, refused.upright) == (False, False)
    trace = refused_from(run.trace, 120, "duplicate: x")
    answer = trace.answer.copy()
    answer[200:] = run.trace.answer[200:]
    assert judged(plan, msgspec.structs.replace(trace, answer=answer)).ending is Ending.STOOD


def test_a_latch_is_a_stop_after_the_first_torque_and_a_refusal_before(stand):
    plan, run = stand
    latched = "latched_fault: latched (base turns at 6.2 rad/s, limit 6); send reset when the robot is at rest"
    why = "(base turns at 6.2 rad/s, limit 6)"
    before, after = (judged(plan, refused_from(run.trace, row, latched)) for row in (0, 120))
    assert (before.ending, before.text) == (Ending.REFUSED, f"was refused {why} at 0.00 s")
    assert (after.ending, after.text) == (Ending.STOPPED, f"was stopped by the server {why} at 0.12 s")


def test_a_fall_is_named_before_its_cause_and_a_later_stop_is_no_cause(stand):
    """One state is enough: later rows do not make it good."""
    plan, run = stand
    q = run.trace.q.copy()
    q[200:, 2] *= 0.4
    down = msgspec.structs.replace(run.trace, q=q)
    latched = "latched_fault: latched (x); send reset when the robot is at rest"
    assert judged(plan, refused_from(down, 150, latched)).text == "fell at 0.20 s, was stopped by the server (x) at 0.15 s"
    assert judged(plan, refused_from(down, 250, latched)).text == "fell at 0.20 s"
    assert judged(plan, down).ending is Ending.FELL
    q = run.trace.q.copy()
    q[100, 2] *= 0.4
    assert judged(plan, msgspec.structs.replace(run.trace, q=q)).text == "fell at 0.10 s"


def test_a_foot_that_moves_over_the_ground_slid_unless_the_robot_is_steered(stand):
    plan, run = stand
    q = run.trace.q.copy()
    q[:, 1] += np.linspace(0.0, 0.04, len(q))
    moved = msgspec.structs.replace(run.trace, q=q)
    slid = judged(plan, moved)
    assert (slid.ending, slid.upright, slid.at) == (Ending.SLID, True, pytest.approx(0.225, abs=0.01))
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


def driven(speed, seconds, turn=0.0):
    """Poses of the quadruped's base along x, or along a circle along which it looks."""
    _, stance = load_robot("quadruped")
    t = np.arange(round(seconds / DT)) * DT
    half = 0.5 * turn * t
    q = np.tile(stance, (len(t), 1))
    q[:, :2] += (speed * t * np.sinc(half / np.pi) * [np.cos(half), np.sin(half)]).T  # chords of the circle
    q[:, 3:7] = np.stack([0 * t, 0 * t, np.sin(half), np.cos(half)], axis=1)
    return t, q


def test_progress_along_a_velocity_about_the_vertical_and_between_waypoints():
    """An ideal point begins after `start` and is allowed half a second less."""
    t, q = driven(0.2, 4.0)
    made, expected, unit, _ = progress_of(WalkSettings(start=0.5, path=PathSettings(velocity=(0.2, 0.0, 0.0))), t, q)
    assert (made, expected, unit) == (pytest.approx(0.8, abs=5e-3), pytest.approx(0.6, abs=5e-3), "m")
    backward = progress_of(WalkSettings(path=PathSettings(velocity=(-0.2, 0.0, 0.0))), t, q)
    assert backward.made == pytest.approx(-0.8, abs=5e-3)
    t, q = driven(0.0, 8.0, turn=1.0)
    round_and_round = progress_of(WalkSettings(path=PathSettings(velocity=(0.0, 0.0, 1.0))), t, q)
    assert (round_and_round.made, round_and_round.unit) == (pytest.approx(8.0, abs=0.02), "rad")
    t, q = driven(0.1, 6.0)
    path = PathSettings(waypoints=((0.3, 0.0), (0.9, 0.0)), speed=0.1)
    made, _, unit, _ = progress_of(WalkSettings(path=path), t, q)
    assert (made, unit) == (pytest.approx(0.6, abs=2e-3), "m")
    short = PathSettings(waypoints=((0.3, 0.0),), speed=0.1)
    made, expected, _, _ = progress_of(WalkSettings(path=short), t, q)
    assert made == pytest.approx(0.3, abs=1e-9)
    assert expected == pytest.approx(0.3, abs=0.035)  # within the tolerance of a waypoint


@every_row(
    (0.2, Ending.WALKED, "walked 0.80 m"),
    (0.1, Ending.WALKED_PART, "walked 0.40 of 0.70 m"),
    (0.01, Ending.NEVER_MOVED, "never moved (0.04 of 0.70 m)"),
    (-0.2, Ending.NEVER_MOVED, "never moved (-0.80 of 0.70 m)"),
)
def test_a_walk_is_judged_by_its_share_of_the_path(speed, ending, text, stand):
    _, run = stand
    t, q = driven(speed, 4.0)
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


@full
@every("walk", WALKS)
@every_row((driven(0.2, 4.0), Ending.WALKED), (driven(-0.2, 4.0), Ending.NEVER_MOVED), (driven(0.2, 4.0, 0.3), Ending.SPUN))
def test_a_walk_is_judged_in_the_world_not_in_the_frame_of_the_robot(poses, ending, walk, stand):
    robot, _ = load_robot("quadruped")
    assert judge(longer(stand[1].trace, *poses), robot, Task(Flat(), reference=walk), ticks=4000, dt=DT).ending is ending


@full
@every_row(
    (WALKS[0], 0.8, 0.6, Ending.DRIFTED),
    (WALKS[1], 0.7, 0.0, Ending.WALKED),
    (WALKS[1], 0.7, 3.0, Ending.DRIFTED),
    (WALKS[1], 2.5, 0.0, Ending.DRIFTED),
    (BACK, 0.4, 0.0, Ending.WALKED),
    (BACK, 0.0, 0.0, Ending.NEVER_MOVED),
)
def test_a_walk_is_judged_by_where_it_was_and_where_it_ends(walk, along, aside, ending, stand):
    robot, _ = load_robot("quadruped")
    seconds = 5.0 if walk is BACK else 4.0
    t, q = driven(0.0, seconds)
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
    t, q = driven(0.2, 1.0)
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
    plan = plan_in(tmp_path, STAND + 'may_fail = ["coulomb"]\n')
    assert plan.as_expected("coulomb", good=False)
    assert not plan.as_expected("cone", good=False)
    with pytest.raises(ConfigError, match=r"experiment.may_fail: expected names of its laws \(coulomb\), got 'convex'"):
        plan_in(tmp_path, STAND + 'may_fail = ["convex"]\n')


def moved(q, up=0.0, roll=0.0):
    """A configuration with the base higher by `up` [m] and rolled from level [rad]."""
    other = q.copy()
    other[2] += up
    other[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return other


def test_a_robot_is_down_when_tilted_or_low_over_its_ground():
    """Up a slope the same height over the world’s origin is a fall. A fixed base does not fall."""
    robot, q = load_robot("quadruped")
    posture = Posture(robot, Flat(), q)
    low = -0.5 * q[2]
    for up, roll, upright in ((0.0, 0.0, True), (0.0, 0.49, True), (0.0, 0.51, False), (0.0, np.pi, False), (0.05, 0.0, True),
                              (low + 1e-3, 0.0, True), (low - 1e-3, 0.0, False)):  # fmt: skip
        assert posture.upright(moved(q, up, roll)[None]) is upright
        assert posture.upright(np.array([q, moved(q, up, roll), q])) is upright
    assert not posture.upright(np.full((1, robot.nq), np.nan))
    posture = Posture(robot, Slope(0.3, 0.1), q)
    along = moved(q)
    along[0] += 0.5
    assert not posture.upright(along[None])
    along[2] += 0.5 * np.tan(0.3)
    assert posture.upright(along[None])
    robot, q = load_robot("arm")
    assert Posture(robot, Flat(), q).upright(np.zeros((2, robot.nq)))


def test_a_base_frame_at_the_ground_has_not_fallen_yet():
    """The frame of the base is where the modeller put it: here, 1 cm below the feet. The robot is down when its mass is."""
    slide = urdf.joint("j", "base", "foot", axis="0 0 1", at=0.01, kind="prismatic", limits=(-1, 1, 1, 1))
    text = urdf.robot("low", urdf.link("base", 1.0, 0.01, at=0.4), urdf.link("foot", 1.0, 0.01), slide)
    robot = Robot(Description(urdf=text, contact=(ContactPoint(frame="foot"),)))
    q = standing(robot, {})
    mass = robot.center_of_mass(q)[2]
    assert (q[2], mass) == (pytest.approx(-0.01), pytest.approx(0.195))
    posture = Posture(robot, Flat(), q)
    assert posture.upright(q[None])
    assert posture.upright(moved(q, up=-0.49 * mass)[None])
    assert not posture.upright(moved(q, up=-0.51 * mass)[None])
    assert not posture.upright(moved(q, roll=0.51)[None])


def tipped(seconds):
    """The quadruped stands for 0.1 s and is then pushed over."""
    plan = load_plan("stand", seconds)
    push = PushSettings(weights=(0.0, 6.0, 0.0), start=0.1, duration=0.2)
    return msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, push=(push,)))


def test_a_run_ends_with_a_fall_and_its_trace_is_that_of_a_shorter_run():
    run = run_in_process(tipped(3.0), "", lambda *_: None)
    assert not run.summary.upright
    assert 0.1 < run.summary.seconds < 1.0
    assert len(run.trace) == round(run.summary.seconds / 1e-3)
    long, short = run.trace, run_in_process(tipped(0.12), "", lambda *_: None).trace
    assert len(short) == 120
    np.testing.assert_array_equal(long.q[:120], short.q)
    np.testing.assert_array_equal(long.tau[:120], short.tau)


def pushed(**push):
    plan = load_plan("stand", 2.0)
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, push=(PushSettings(**push),)))
    return pushes_of(plan, load_robot("quadruped")[0])


def test_a_repeated_push_turns_from_one_to_the_next():
    found = pushed(force=(3.0, 0.0, 1.0), start=0.5, duration=0.1, every=0.6, turn=np.pi / 2)
    np.testing.assert_allclose([p.start for p in found], [0.5, 1.1, 1.7])
    np.testing.assert_allclose([p.force for p in found], [(3.0, 0.0, 1.0), (0.0, 3.0, 1.0), (-3.0, 0.0, 1.0)], atol=1e-12)
    with pytest.raises(ConfigError, match=r"push\[0\]\.every: expected 0 or at least the duration 0\.1 s, got 0\.05"):
        pushed(force=(3.0, 0.0, 1.0), start=0.5, duration=0.1, every=0.05)


def trace(**changes) -> Trace:
    """The stance of the quadruped, held for 40 ticks, a quarter of its weight on each foot."""
    robot, q = load_robot("quadruped")
    force = np.zeros((N, 4, 3))
    force[..., 0] = robot.total_mass * 9.81 / 4
    still = Trace(
        t=np.arange(N) * DT,
        q=np.tile(q, (N, 1)),
        v=np.zeros((N, robot.nv)),
        tau=np.zeros((N, robot.na)),
        predicted=force.copy(),
        simulated=force.copy(),
        mode=np.zeros(N, dtype=np.int64),
        status=np.zeros(N, dtype=np.int64),
        round_trip=np.full(N, np.nan),
        solve_time=np.full(N, np.nan),
        q_ref=np.tile(robot.joint_angles(q), (N, 1)),
        v_ref=np.zeros((N, robot.na)),
        wall=7.0 + np.arange(N) * DT,
        places=robot.spheres.keys,
        modes=("ok",),
    )
    return msgspec.structs.replace(still, **changes)


def figures(one: Trace, terrain=FLAT, **options):
    robot, _ = load_robot("quadruped")
    return summarise(one, robot, Task(terrain=terrain, **options), label="", engine="", ticks=N, dt=DT)


def test_standing_still_has_no_error():
    s = figures(trace())
    assert (s.upright, s.tracking, s.speed_tracking, s.torque, s.torque_rate, s.torque_rate_max) == (True, 0, 0, 0, 0, 0)
    assert (s.force_error, s.drift, s.distance, s.tilt, s.modes) == (0, 0, 0, 0, {"ok": 1.0})
    assert (s.contact_force_error, s.force) == (pytest.approx(0, abs=1e-12), pytest.approx(s.weight))
    assert math.isnan(s.path_error)
    assert (s.step_p50, s.step_max, s.round_trip_p50) == (None, None, None)


def test_missed_deadlines_are_described():
    s = figures(trace())
    assert s.pace == pytest.approx(1.0)
    assert slowness(s, DT) == ""
    wall = 7.0 + 1.6 * DT * np.arange(N)
    wall[20:] += 0.469
    slow = figures(trace(wall=wall, round_trip=np.where(np.arange(N) % 4, 0.5e-3, 1.5e-3)))
    assert (slow.pace, slow.longest_tick) == (pytest.approx(39e-3 / (39 * 1.6e-3 + 0.469)), pytest.approx(0.4706))
    sentence = slowness(slow, DT)
    for figure in ("1000 Hz", "0.07 × real time", "Of 40 replies 10", "p99 1500 µs", "471 ms"):
        assert figure in sentence


def test_tracking_is_the_mean_magnitude_over_joints_and_time():
    still = trace()
    q_ref, v_ref = still.q_ref.copy(), still.v_ref.copy()
    q_ref[:10, 0] += 0.12  # a quarter of the ticks, one joint of twelve
    v_ref[:, :6] -= 3.0
    s = figures(trace(q_ref=q_ref, v_ref=v_ref))
    assert (s.tracking, s.speed_tracking) == (pytest.approx(0.12 / 4 / 12), pytest.approx(1.5))
    still = trace()
    q_ref = still.q_ref + 0.1
    q_ref[20:] = np.nan
    assert figures(trace(q_ref=q_ref)).tracking == pytest.approx(0.1)


def test_torque_and_torque_rate_are_means_without_the_first_ticks():
    tau = np.zeros((N, 12))
    tau[20:, 3] = 0.6
    s = figures(trace(tau=tau))
    assert (s.torque, s.torque_rate_max) == (pytest.approx(0.6 / 2 / 12), pytest.approx(600.0))
    assert s.torque_rate == pytest.approx(600.0 / 12 / (N - 1 - SETTLED))
    tau = np.zeros((N, 12))
    tau[0] = 5.0
    assert figures(trace(tau=tau)).torque_rate_max == 0.0


def test_force_errors_absolute_and_relative():
    """Four loaded feet: all predicted; two of them in all ticks; none of them loaded."""
    still = trace()
    predicted = still.predicted.copy()
    predicted[:, 0, 0] += 2.0
    predicted[:, 1, 0] -= 0.5
    predicted[7] = np.nan  # no prediction: left out
    s = figures(trace(predicted=predicted))
    assert (s.force_error, s.force_error_relative) == (pytest.approx(1.5), pytest.approx(1.5 / s.weight))
    assert figures(trace()).told == 1.0
    predicted = trace().predicted.copy()
    predicted[:, :2] = np.nan
    assert figures(trace(predicted=predicted)).told == 0.5
    assert np.isnan(figures(trace(simulated=0.0 * trace().simulated)).told)


def test_self_balanced_forces_are_no_force_error():
    """A self-balanced set of contact forces is invisible to the base; a net push is not."""
    robot, q = load_robot("quadruped")
    contacts = contacts_from_geometry(robot, q, Flat(), margin=1.0)
    terms = robot.terms(q, np.zeros(robot.nv))
    J_u = contact_jacobian(terms.axes, robot.tree.support, contacts)[:, robot.tree.u]
    inside = np.linalg.svd(J_u.T)[2][6:].T @ np.arange(1.0, 7.0)  # a vector of the null space of J_uᵀ
    assert np.abs(J_u.T @ inside).max() < 1e-12
    shifted = trace().predicted + inside.reshape(4, 3)[:, [2, 0, 1]]
    assert np.abs(inside.reshape(4, 3)[:, 2]).max() > 0.1
    assert contact_force_error(trace(predicted=shifted), robot, Flat()) == pytest.approx(0, abs=1e-10)
    lifted = trace().predicted.copy()
    lifted[..., 0] += 1.0  # one newton more on each of four symmetric feet: nothing of it is internal
    assert contact_force_error(trace(predicted=lifted), robot, Flat()) == pytest.approx(1.0, rel=1e-9)


def test_the_path_error_is_the_distance_to_the_nearest_segment():
    robot, q = load_robot("quadruped")
    com = robot.center_of_mass(q)[:2]
    below = [(com[0] - 1, com[1] - 0.03), (com[0] + 1, com[1] - 0.03), (com[0] + 1, com[1] + 5)]
    assert path_error(trace(), robot, np.array(below)) == pytest.approx(0.03)
    beyond = [(com[0] + 0.03, com[1] + 0.04), (com[0] + 9, com[1] + 0.04)]
    assert path_error(trace(), robot, np.array(beyond)) == pytest.approx(0.05)
    assert path_error(trace(), robot, com[None] + [[0.3, 0.4]]) == pytest.approx(0.5)
    along = WalkSettings(path=PathSettings(waypoints=tuple(beyond)))
    assert figures(trace(), reference=along).path_error == pytest.approx(0.05)
    corners, (_, stance) = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)), load_robot("quadruped")
    for repeat, path in ((False, corners), (True, (*corners, corners[0]))):
        plan = with_controller(load_plan("trot"), {"reference": {"path": {"waypoints": corners, "repeat": repeat}}})
        assert task_of(plan.controller, stance).reference.corners == path
    assert task_of(load_plan("stand").controller, stance).reference.corners == ()


def test_height_is_measured_from_the_ground_below():
    points = np.array([[-1.0, 0.0, 0.3], [0.45, 0.2, 0.3], [0.75, 0.2, 0.1]])
    np.testing.assert_allclose(above_ground(points, Stairs(0.3, 0.2, 0.02, 5)), [0.3, 0.28, 0.04], atol=1e-3)
    ground = 0.1 + points[:, 0] * np.tan(0.3)
    np.testing.assert_allclose(above_ground(points, Slope(0.3, 0.1)), points[:, 2] - ground, atol=1e-3)


def test_step_times_and_lengths_of_paths():
    s = figures(trace(solve_time=np.arange(1, N + 1) * 1e-6, round_trip=np.full(N, 2e-3)))
    assert (s.step_p50, s.step_max) == (pytest.approx(20.5), pytest.approx(40.0))
    assert (s.round_trip_p50, s.late) == (pytest.approx(2000.0), N)
    q = trace().q.copy()
    q[:20, 0] = np.linspace(0, 0.1, 20)
    q[20:, 0] = np.linspace(0.1, 0, 20)
    s = figures(trace(q=q))
    assert (s.distance, s.drift) == (pytest.approx(0.2), pytest.approx(0, abs=1e-12))
