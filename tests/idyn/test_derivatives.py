"""Derivatives of predictions against central differences of `predict`, and their verdict."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast
from scenes import Scene, batch_of, near_stance

import idyn
from controllers.robot.load import load_robot
from idyn import Consistency, ContactSet, Flat, Ground, InputError, Options, Selection, State, contacts_from_geometry
from idyn.batch.arrays import TOUCH

DT = 1e-3

STEPS = {"q_ddot": 1e-2, "q": 1e-6, "v": 1e-6, "mu": 1e-5, "preferred": 1e-3}  # steps of the differences

NOISE = {"tau": 1e-11, "p": 1e-14, "v_plus": 1e-14}
"""Rounding errors of a prediction, which the differences divide by their step."""

OFF = {"consistency": Consistency.OFF}

CASES = [  # law, options, and the size of velocities: at 0.05 feet stick, at 0.5 they slide, stick and open
    ("coulomb", Options(), 0.05),
    ("coulomb", Options(**OFF), 0.5),
    ("coulomb", Options(selection=Selection.TORQUE), 0.05),
    ("coulomb", Options(selection=Selection.OFF, **OFF), 0.5),
    ("coulomb", Options(ground=Ground.rigid(), **OFF), 0.5),
    ("coulomb", Options(ground=Ground.rigid(), selection=Selection.TORQUE, **OFF), 1.0),
    ("no-slip", Options(), 0.05),
    ("exact-cone", Options(), 0.05),
    ("exact-cone", Options(selection=Selection.OFF, **OFF), 0.5),
    ("exact-cone", Options(ground=Ground.rigid(), **OFF), 0.5),
]
BATCHES = [  # law, options, and the size of velocities
    ("coulomb", Options(), 0.05),
    ("coulomb", Options(consistency=Consistency.OFF), 0.5),
    ("no-slip", Options(), 0.05),
    ("exact-cone", Options(consistency=Consistency.OFF), 0.5),
]


class Tick:
    """A random prediction of go2 after another one. Its arguments can be changed one by one."""

    def __init__(self, law, options, speed, seed, name="go2"):
        robot, state, contacts, rng = near_stance(name, seed, 0.03, speed)
        self.contacts = msgspec.structs.replace(contacts, mu=np.full(4, 0.6))
        self.robot, self.q, self.law, self.options = robot, state.q, law, options
        self.given = {
            "q": np.zeros(robot.nv),  # step along the tangent
            "v": state.v,
            "q_ddot": (2.0 if speed < 0.2 else 20.0) * rng.normal(size=robot.na),
            "mu": self.contacts.mu,
            "preferred": (5.0 * rng.normal(size=(4, 3))).ravel(),  # in contact rows
        }
        self.guess = None
        self.guess = self.answer(q_ddot=0.9 * self.given["q_ddot"]).guess
        self.rng = rng

    def arguments(self, **changes):
        given = self.given | changes
        axes = [np.array([s, np.cross(n, s), n]) for s, n in zip(self.contacts.tangents, self.contacts.normals, strict=True)]
        preferred = np.array([E.T @ f for E, f in zip(axes, given["preferred"].reshape(4, 3), strict=True)])
        contacts = msgspec.structs.replace(self.contacts, mu=given["mu"])
        return State(q=self.robot.integrate(self.q, given["q"]), v=given["v"]), contacts, given["q_ddot"], preferred

    def answer(self, **changes):
        state, contacts, q_ddot, preferred = self.arguments(**changes)
        common = {"law": self.law, "dt": DT, "options": self.options, "guess": self.guess, "preferred": preferred}
        return idyn.predict(self.robot, state, contacts, q_ddot, **common)

    def slopes(self, answer, **changes):
        state, contacts, q_ddot, preferred = self.arguments(**changes)
        common = {"law": self.law, "options": self.options, "guess": self.guess, "preferred": preferred}
        return idyn.derivatives(self.robot, state, contacts, q_ddot, answer, **common)

    def errors(self, found):
        """Largest error along a random direction for each quantity and result, relative to the largest entry of the slope.
        Where the difference steps over a switch, a shorter step is used."""
        for name, step in STEPS.items():
            direction, slope = self.rng.normal(size=self.given[name].shape), getattr(found, name)
            errors = [list(self.difference(name, direction, slope, share * step)) for share in (1.0, 0.03, 0.001)]
            for k, result in enumerate(NOISE):
                yield name, result, min(error[k] for error in errors)

    def difference(self, name, direction, slope, step):
        """Errors of τ, p and v⁺ for one step."""
        low, high = (self.answer(**{name: self.given[name] + sign * step * direction}) for sign in (-1, 1))
        for result, noise in NOISE.items():
            difference = (getattr(high, result) - getattr(low, result)) / (2 * step)
            matrix = getattr(slope, result)
            size = max(np.abs(matrix).max(initial=0.0), np.abs(matrix @ direction).max(initial=0.0), 1e6 * noise / step)
            yield np.abs(difference - matrix @ direction).max() / size


def check(case, seed, name="go2"):
    """Return whether the derivatives are classical; then they agree with the differences."""
    tick = Tick(*case, seed, name)
    answer = tick.answer()
    if not answer.status.ok:
        return False
    found = tick.slopes(answer)
    if not found.classical:
        return False
    for quantity, result, error in tick.errors(found):
        assert error < 1e-6, (seed, quantity, result, error)
    return True


@pytest.mark.parametrize("count", [*first_is_fast([3, 25]), pytest.param(1000, marks=pytest.mark.long)])
@every("case", CASES)
def test_derivatives_are_those_of_the_prediction(case, count):
    assert sum(check(case, seed) for seed in range(count)) >= 1


@pytest.mark.parametrize("count", first_is_fast([6, 25]))
def test_derivatives_where_contact_rows_depend_on_each_other(count):
    """Legs that move in planes: the sideways rows of four feet depend on each other, and J̇ v is what the mechanism follows."""
    cases = [("coulomb", Options(**OFF), 0.05), ("exact-cone", Options(**OFF), 0.5)]
    assert sum(check(case, seed, "solo8") for seed in range(count) for case in cases) >= 1


@pytest.mark.parametrize("seed", first_is_fast(range(10), 3))
def test_on_both_sides_of_a_switch_the_derivatives_are_those_of_that_side(seed):
    """Along a line of demands a foot slides or opens. Close to this switch the derivatives are one-sided differences."""
    tick = Tick("coulomb", Options(**OFF), 0.0, seed)
    start, far = tick.given["q_ddot"], 400.0 * tick.rng.normal(size=tick.robot.na)

    def slope(x):
        at = {"q_ddot": start + x * far}
        return tick.slopes(tick.answer(**at), **at).q_ddot.v_plus

    def same(x, y):
        return np.allclose(slope(x), slope(y), rtol=0.0, atol=1e-9)

    low, high = 0.0, 1.0
    if same(low, high):
        pytest.skip("no switch along this line")
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if same(low, middle) else (low, middle)
    for x, away in ((low - 1e-4, -1e-5), (high + 1e-4, 1e-5)):
        here, there = (tick.answer(q_ddot=start + y * far).v_plus for y in (x, x + away))
        np.testing.assert_allclose((there - here) / away, slope(x) @ far, rtol=0.0, atol=1e-6 * np.abs(slope(x) @ far).max())
    at = {"q_ddot": start + low * far}
    assert tick.slopes(tick.answer(**at), **at).switches


def test_a_contact_that_just_touches_is_a_switch():
    robot, stance = load_robot("go2")
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.002)
    state, ground = State(q=stance, v=np.zeros(robot.nv)), Ground.rigid(noise=0.0, recovery_speed=np.inf)
    options = Options(ground=ground, **OFF)

    def tick(gap):
        high = msgspec.structs.replace(contacts, gaps=np.full(4, gap))
        answer = idyn.predict(robot, state, high, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
        return answer, idyn.derivatives(robot, state, high, np.zeros(robot.na), answer, law="coulomb", options=options)

    falling = idyn.predict(robot, state, contacts.take(np.zeros(0, np.int64)), np.zeros(robot.na), law="coulomb", dt=DT)
    way = float(-falling.v_plus[2]) * DT
    for gap, loaded in ((0.5 * way, True), (2.0 * way, False)):
        answer, found = tick(gap)
        assert found.classical
        assert (answer.normal_force > 0.0).all() == loaded
    _, found = tick(way * (1.0 + 1e-9))
    assert [switch for switch in found.switches if "may close" in switch]


def test_laws_without_a_basis_and_answers_of_another_law_or_for_other_contacts_are_refused():
    (robot, state, contacts, q_ddot), answer, common = scene()
    for law, words in (*((law, "expected a law with a basis") for law in ("sap", "convex")), ("no-slip", "answer")):
        with pytest.raises(InputError, match=words):
            idyn.derivatives(robot, state, contacts, q_ddot, answer, **common | {"law": law})
    with pytest.raises(InputError, match="answer"):
        idyn.derivatives(robot, state, contacts.take(np.arange(3)), q_ddot, answer, **common)


# -- derivatives are those of their own call ---------------------------------------------------------------------------


PARTS = ("q_ddot", "q", "v", "mu", "preferred")


def scene(name="go2", seed=0, speed=0.05, options=None, law="coulomb"):
    """A prediction of a random state near the stance, after another one, and the arguments of both functions."""
    robot, state, contacts, rng = near_stance(name, seed, 0.02, speed)
    q_ddot = rng.normal(size=robot.na)
    common = {"law": law, "options": Options() if options is None else options}
    guess = idyn.predict(robot, state, contacts, 0.9 * q_ddot, dt=DT, **common).guess
    arguments = robot, state, contacts, q_ddot
    return arguments, idyn.predict(*arguments, dt=DT, guess=guess, **common), common | {"guess": guess}


def read(found):
    return [np.vstack(msgspec.structs.astuple(getattr(found, name))) for name in PARTS]


def test_slopes_read_later_are_those_of_their_own_state():
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(idyn.derivatives(robot, state, contacts, q_ddot, answer, **common))
    found = idyn.derivatives(robot, state, contacts, q_ddot, answer, **common)
    other = State(q=robot.integrate(state.q, np.full(robot.nv, 0.1)), v=state.v + 1.0)
    idyn.predict(robot, other, contacts, -q_ddot, dt=DT, **common)
    state.q[:] = other.q
    for one, two in zip(read(found), expected, strict=True):
        np.testing.assert_array_equal(one, two)


@every("change", ["q", "v", "points", "mu", "gaps"])
def test_the_dynamics_of_another_state_are_not_used(change):
    """The last prediction before the call was made for another state or other contacts."""
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(idyn.derivatives(robot, state, contacts, q_ddot, answer, **common))
    other, touched = state, contacts
    if change == "q":
        other = State(q=robot.integrate(state.q, np.full(robot.nv, 1e-3)), v=state.v)
    elif change == "v":
        other = State(q=state.q, v=state.v + 1e-3)
    else:
        touched = msgspec.structs.replace(contacts, **{change: getattr(contacts, change) + 1e-3})
    idyn.predict(robot, other, touched, q_ddot, dt=2 * DT, law="no-slip")
    for one, two in zip(read(idyn.derivatives(robot, state, contacts, q_ddot, answer, **common)), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9 * np.abs(two).max(initial=0.0))


def test_numbers_of_other_types_are_accepted():
    (robot, state, contacts, q_ddot), answer, common = scene()
    expected = read(idyn.derivatives(robot, state, contacts, q_ddot, answer, **common))
    found = idyn.derivatives(robot, State(q=state.q.tolist(), v=state.v.tolist()), contacts, q_ddot.tolist(), answer, **common)
    for one, two in zip(read(found), expected, strict=True):
        np.testing.assert_array_equal(one, two)


def test_arrays_of_a_wrong_size_are_named():
    (robot, state, contacts, q_ddot), answer, common = scene()
    short = State(q=state.q, v=state.v[1:])
    for named, given, demand, more in (
        ("q_ddot", state, q_ddot[1:], {}),
        ("preferred", state, q_ddot, {"preferred": np.zeros((3, 3))}),
        ("v", short, q_ddot, {}),
    ):
        with pytest.raises(InputError, match=named):
            idyn.derivatives(robot, given, contacts, demand, answer, **common | more)


@every("law", ["coulomb", "contact-free"])
def test_without_contacts_the_torques_are_those_of_free_motion(law):
    """∂τ/∂q̈ is the inertia of the joints seen through the free base; impulses have no rows."""
    robot, stance = load_robot("go2")
    rng = np.random.default_rng(1)
    state, q_ddot = State(q=stance, v=rng.normal(size=robot.nv)), rng.normal(size=robot.na)
    none = contacts_from_geometry(robot, stance, Flat(), margin=np.inf).take(np.zeros(0, np.int64))
    answer = idyn.predict(robot, state, none, q_ddot, law=law, dt=DT)
    found = idyn.derivatives(robot, state, none, q_ddot, answer, law=law)
    M, u, a = robot.terms(state.q, state.v).M.copy(), robot.tree.u, robot.tree.a
    free = M[np.ix_(a, a)] - M[np.ix_(a, u)] @ np.linalg.solve(M[np.ix_(u, u)], M[np.ix_(u, a)])
    np.testing.assert_allclose(found.q_ddot.tau, free, rtol=0.0, atol=1e-9)
    assert found.classical
    assert found.mu.tau.shape == (robot.na, 0)


def test_forces_that_move_no_unactuated_body_are_the_preferred_ones():
    """A finger of an arm with a fixed base touches the ground."""
    robot, stance = load_robot("arm")
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=np.inf).take(np.arange(1))
    contacts = msgspec.structs.replace(contacts, gaps=np.zeros(1), mu=np.full(1, 0.5))
    state, preferred = State(q=stance, v=np.zeros(robot.nv)), 20.0 * contacts.normals
    common = {"law": "coulomb", "preferred": preferred}
    answer = idyn.predict(robot, state, contacts, np.zeros(robot.na), dt=DT, **common)
    found = idyn.derivatives(robot, state, contacts, np.zeros(robot.na), answer, **common)
    np.testing.assert_allclose(answer.normal_force, 20.0, atol=1e-6)
    np.testing.assert_allclose(found.preferred.p, DT * np.eye(3), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.q_ddot.p, 0.0, atol=1e-9)


@every("between", [False, True])
def test_a_demand_that_is_not_finite_is_refused(between):
    (robot, state, contacts, q_ddot), answer, common = scene()
    if between:
        elsewhere = State(q=robot.integrate(state.q, np.full(robot.nv, 0.1)), v=state.v)
        idyn.predict(robot, elsewhere, contacts, q_ddot, dt=DT, **common)
    q_ddot[3] = np.nan
    with pytest.raises(InputError, match=r"q_ddot\[3\]: expected a finite number"):
        idyn.derivatives(robot, state, contacts, q_ddot, answer, **common)


# -- members of batches -------------------------------------------------------------------------------------------------


MEMBERS = 12


def batch(speed, seed=0):
    """Robot and a batch: members in pairs with the same state; feet stick at 0.05 m/s, they slide, stick and open at 0.5."""
    scenes, size = [], 2.0 if speed < 0.2 else 20.0
    for k in range(MEMBERS):
        robot, state, contacts, _ = near_stance("go2", seed + k // 2, 0.03, speed)
        contacts, demand = msgspec.structs.replace(contacts, mu=np.full(4, 0.6)), np.random.default_rng(k).normal(size=robot.na)
        scenes.append(Scene(robot=robot, state=state, contacts=contacts, q_ddot=size * demand))
    return robot, batch_of(scenes, preferred=5.0 * np.random.default_rng(seed).normal(size=(MEMBERS, 4, 3)))


def single(robot, given, i, guess, answer, **common):
    """Derivatives of member i of a batch for its answer; without one, right after a single prediction. None if it failed."""
    contacts = ContactSet(**{name: getattr(given.contacts, name)[i] for name in TOUCH}, keys=given.contacts.keys)
    arguments = robot, State(q=given.state.q[i], v=given.state.v[i]), contacts, given.q_ddot[i]
    more = common | {"guess": guess, "preferred": given.preferred[i]}
    answer = answer or idyn.predict(*arguments, dt=DT, **more)
    return idyn.derivatives(*arguments, answer, **more) if answer.law == common["law"] and answer.status.ok else None


@pytest.mark.parametrize(("law", "options", "speed"), first_is_fast(BATCHES, 2))
def test_the_answer_of_a_member_has_the_derivatives_of_a_single_prediction(law, options, speed):
    robot, given = batch(speed)
    common = {"law": law, "options": options}
    before = idyn.predict_batch(robot, msgspec.structs.replace(given, q_ddot=0.9 * given.q_ddot), dt=DT, **common).guess
    answer, compared = idyn.predict_batch(robot, given, dt=DT, guess=before, **common), 0
    for i in range(MEMBERS):
        found, alone = (single(robot, given, i, before.member(i), one, **common) for one in (answer.member(i), None))
        if found is None:
            continue
        assert found.switches == alone.switches
        for name in PARTS:
            pairs = zip(*(msgspec.structs.astuple(getattr(each, name)) for each in (found, alone)), strict=True)
            assert all(np.array_equal(one, expected) for one, expected in pairs)
        compared += 1
    assert compared > MEMBERS // 2
