"""Getting up: which motion follows which attitude, and references that a robot can follow. Without a world."""

from typing import Any

import numpy as np
import pytest
from fast import every, first_is_fast
from rigs import at_rest, controller

from controllers.command import Inputs, Reference
from controllers.contact.ground import SlopeSettings
from controllers.planners.getting_up import GetUp, GetUpSettings, Phase
from controllers.robot.kinematics import contact_places, resting
from controllers.robot.load import load_robot
from idyn import ConfigError, State

ROBOTS = ("go2", "a1", "solo12", "quadruped")
DT = 1e-3
NO_CONTACTS: Any = None  # the plan does not use them


def planner(name: str = "go2") -> GetUp:
    c = controller(f"{name}-lying")
    built = c.settings.reference.build(c.robot, c.stance, DT)
    assert isinstance(built, GetUp)
    return built


def lying(name: str, roll: float) -> State:
    """A robot in its stance, turned about its long axis [rad], at rest."""
    robot, q = load_robot(f"{name}-lying")
    q = q.copy()
    q[3:7] = np.sin(roll / 2), 0.0, 0.0, np.cos(roll / 2)
    return State(q=q, v=np.zeros(robot.nv))


def follow(plan: GetUp, roll: float, seconds: float, name: str = "go2", since: float = 0.0) -> list[Reference]:
    """The references of a robot that does not turn whatever it does."""
    state = lying(name, roll)
    return [plan.at(since + k * DT, state, NO_CONTACTS) for k in range(round(seconds / DT))]


def during(plan: GetUp, phase: Phase, roll: float, seconds: float, name: str = "go2") -> list[Reference]:
    """Those of them in a phase."""
    state = lying(name, roll)
    found = [(plan.at(t, state, NO_CONTACTS), plan.phase) for t in np.arange(0.0, seconds, DT)]
    return [reference for reference, now in found if now is phase]


def moved_legs(name: str, references: list[Reference]) -> dict[str, float]:
    """Largest motion of the joints of each leg, by the key of its foot [rad]."""
    robot, _ = load_robot(f"{name}-lying")
    motion = np.ptp([each.q for each in references], axis=0)
    above = robot.tree.support[robot.spheres.joints[:4]][:, robot.tree.a]
    return {key: float(motion[leg].max()) for key, leg in zip(robot.spheres.keys[:4], above, strict=True)}


@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_a_reference_is_continuous_and_its_speeds_are_its_derivatives(name):
    """On its back for 7 s, then on its belly: all phases but the end of a roll. No step is larger than the speed allows."""
    plan = planner(name)
    references = follow(plan, np.pi, 7.0, name) + follow(plan, 0.0, 4.0, name, since=7.0)
    assert plan.phase is Phase.STAND
    q, v, a = (np.array([getattr(each, field) for each in references]) for field in "qva")
    speed = plan._settings.speed
    assert np.abs(np.diff(q, axis=0)).max() < 1.01 * speed * DT
    middle = 0.5 * (v[1:] + v[:-1])
    np.testing.assert_allclose(np.diff(q, axis=0) / DT, middle, atol=2e-3 * speed)
    steps = np.abs(np.diff(v, axis=0) / DT - 0.5 * (a[1:] + a[:-1])).max(axis=1)
    assert np.sort(steps)[-8:].max() < 400.0  # only where one motion takes over from another that has not ended
    assert np.sort(steps)[:-8].max() < 5.0
    robot, _ = load_robot(f"{name}-lying")
    assert (q[1:] >= robot.limits.q_min - 1e-9).all()
    assert (q[1:] <= robot.limits.q_max + 1e-9).all()


@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_it_rises_straight_up_over_feet_that_stay(name):
    plan = planner(name)
    robot, stance = load_robot(f"{name}-lying")
    rising = during(plan, Phase.RISE, 0.0, 4.0, name)
    places = np.array([contact_places(robot, robot.with_joint_angles(robot.neutral(), each.q))[:4] for each in rising])
    along = places - places[-1]
    assert np.abs(along[..., :2]).max() < 1e-4
    assert np.abs(along[..., 2] - along[:, :1, 2]).max() < 1e-4
    assert along[0, 0, 2] == pytest.approx(plan._settings.depth, abs=1e-4)
    np.testing.assert_allclose(follow(plan, 0.0, 0.01, name, since=4.0)[-1].q, robot.joint_angles(stance), atol=1e-9)


@every(("roll", "pushing"), [(np.pi - 0.3, "L"), (np.pi + 0.3, "R"), (np.pi / 2, "R"), (-np.pi / 2, "L")])
def test_the_higher_legs_push_from_the_back_and_the_lower_ones_from_a_side(roll, pushing):
    robot, _ = load_robot("go2-lying")
    heights = contact_places(robot, lying("go2", roll).q)[[robot.spheres.keys.index(f"{leg}_thigh") for leg in ("FL", "FR")], 2]
    higher = "L" if heights[0] > heights[1] else "R"
    assert (pushing == higher) is (abs(roll) > 2.0)
    legs = moved_legs("go2", during(planner(), Phase.SWING, roll, 1.0))
    assert all((motion > 0.1) is (key[1] == pushing) for key, motion in legs.items())


def test_after_pushes_in_vain_the_other_side_pushes_and_the_reply_says_so():
    plan, sides, said = planner(), [], []
    state = lying("go2", np.pi + 0.3)
    for t in np.arange(0.0, 25.0, 0.01):
        before = plan.pushes
        reference = plan.at(t, state, NO_CONTACTS)
        if plan.pushes > before:
            sides.append(plan.left_pushes)
            said.append(reference.problem)
    assert sides[:6] == [False, False, True, True, False, False]
    assert said[0] == ""
    assert said[2] == "getting up: 2 pushes did not roll the robot over"


def test_a_standing_robot_that_tips_begins_anew_and_only_a_lying_one_drags():
    plan = planner()
    follow(plan, 0.0, 4.0)
    assert plan.phase is Phase.STAND
    follow(plan, 0.9, 0.1, since=4.0)
    assert plan.phase is Phase.STAND
    follow(plan, 1.1, 0.1, since=4.1)
    assert plan.phase is Phase.FOLD

    plan = planner()
    assert all(each.drags for each in follow(plan, np.pi, 5.0))
    follow(plan, 0.0, 2.5, since=5.0)
    assert plan.phase in (Phase.RISE, Phase.STAND)
    assert not any(each.drags for each in follow(plan, 0.0, 2.0, since=7.5))


def test_a_demand_that_drags_is_realised_and_another_one_is_changed():
    """All joints are to accelerate at once, which no standing robot can without sliding feet."""
    c = controller("go2-lying")
    state, rng = at_rest(c), np.random.default_rng(0)
    wanted = rng.normal(size=c.robot.na)
    for drags in (True, False):
        c.reset()
        reference = Reference(q=c.robot.joint_angles(state.q), v=np.zeros(c.robot.na), a=wanted, drags=drags)
        prediction = c.answer(state, c.contacts(state), Inputs(dt=0.0, reference=reference)).prediction
        assert prediction is not None
        change = float(np.abs(prediction.v_plus[c.robot.tree.a] - DT * wanted).max())
        assert (change < 1e-9) is drags


@pytest.mark.parametrize("name", first_is_fast(ROBOTS))
def test_places_of_trunk_and_legs_do_not_carry_a_standing_robot(name):
    """On a slope it stands as without them."""
    terrain = SlopeSettings(angle=0.15).build()
    robot, stance = load_robot(f"{name}-lying")
    known, known_stance = load_robot(name)
    np.testing.assert_allclose(stance, known_stance, atol=1e-12)
    np.testing.assert_allclose(resting(robot, stance, terrain), resting(known, known_stance, terrain), atol=1e-9)


@every(
    ("change", "where", "says"),
    [
        ({"depth": 0.3}, "reference.depth", "legs do not reach|rad of"),
        ({"over": {"FR_calf_joint": -2.0}}, "reference.over.FR_calf_joint", "joint of the left side"),
        ({"over": {"FL_calf": -2.0}}, "reference.over.FL_calf", "nearest: FL_calf_joint"),
        ({"from_back": {"FL_hip_joint": 1.2}}, "reference.from_back", "-1.0472 to 1.0472 rad of FL_hip_joint"),
        ({"tries": 0}, "reference.tries", "at least 1"),
    ],
)
def test_wrong_settings_name_what_is_wrong(change, where, says):
    given = {"depth": 0.2, "over": {}, "from_back": {}, "from_side": {}} | change
    robot, stance = load_robot("go2-lying")
    with pytest.raises(ConfigError, match=says) as error:
        GetUpSettings(**given).build(robot, stance, DT)
    assert str(error.value).startswith(where)


def test_a_robot_without_pairs_of_legs_is_refused():
    robot, stance = load_robot("talos")
    with pytest.raises(ConfigError, match="no partner"):
        GetUpSettings(depth=0.05, over={}, from_back={}, from_side={}).build(robot, stance, DT)
