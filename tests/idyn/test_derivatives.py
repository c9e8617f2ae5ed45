"""Derivatives of predictions against central differences of `predict`, and their verdict."""

import msgspec
import numpy as np
import pytest
from fast import every, first_is_fast

from controllers.robot.load import load_robot
from idyn import Consistency, Flat, Ground, InputError, Options, Selection, State, contacts_from_geometry, derivatives, predict

DT = 1e-3

STEPS = {"q_ddot": 1e-2, "q": 1e-6, "v": 1e-6, "mu": 1e-5, "preferred": 1e-3}
"""Steps of the differences."""

NOISE = {"tau": 1e-11, "p": 1e-14, "v_plus": 1e-14}
"""Rounding errors of a prediction, which the differences divide by their step."""

OFF = {"consistency": Consistency.OFF}

CASES = [
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
"""Law, options, and the size of velocities: at 0.05 feet stick, at 0.5 they slide, stick and open."""


class Tick:
    """A random prediction of go2 after another one. Its arguments can be changed one by one."""

    def __init__(self, law, options, speed, seed, name="go2"):
        rng = np.random.default_rng(seed)
        robot, stance = load_robot(name)
        q = robot.integrate(stance, 0.03 * rng.normal(size=robot.nv))
        contacts = contacts_from_geometry(robot, q, Flat(), margin=np.inf)
        self.contacts = msgspec.structs.replace(contacts, gaps=np.zeros(4), mu=np.full(4, 0.6))
        self.robot, self.q, self.law, self.options = robot, q, law, options
        self.given = {
            "q": np.zeros(robot.nv),  # step along the tangent
            "v": speed * rng.normal(size=robot.nv),
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
        return predict(self.robot, state, contacts, q_ddot, **common)

    def slopes(self, answer, **changes):
        state, contacts, q_ddot, preferred = self.arguments(**changes)
        common = {"law": self.law, "options": self.options, "guess": self.guess, "preferred": preferred}
        return derivatives(self.robot, state, contacts, q_ddot, answer, **common)

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


@pytest.mark.parametrize("count", first_is_fast([6, 25]))
@every("case", CASES)
def test_derivatives_are_those_of_the_prediction(case, count):
    assert sum(check(case, seed) for seed in range(count)) >= 1


@pytest.mark.parametrize("count", first_is_fast([6, 25]))
def test_derivatives_where_contact_rows_depend_on_each_other(count):
    """Legs that move in planes: the sideways rows of four feet depend on each other, and J̇ v is what the mechanism follows."""
    cases = [("coulomb", Options(**OFF), 0.05), ("exact-cone", Options(**OFF), 0.5)]
    assert sum(check(case, seed, "solo8") for seed in range(count) for case in cases) >= 1


@pytest.mark.long
@every("case", CASES)
def test_derivatives_of_a_thousand_states(case):
    print(case[0], sum(check(case, seed) for seed in range(1000)))


@pytest.mark.parametrize("seed", first_is_fast(range(10), 3))
def test_on_both_sides_of_a_switch_the_derivatives_are_those_of_that_side(seed):
    """Along a line of demands a foot begins to slide or opens. Close to this switch, on each side of it, the derivatives agree
    with one-sided differences away from it."""
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
    state, options = (
        State(q=stance, v=np.zeros(robot.nv)),
        Options(ground=Ground.rigid(noise=0.0, recovery_speed=np.inf), **OFF),
    )

    def tick(gap):
        high = msgspec.structs.replace(contacts, gaps=np.full(4, gap))
        answer = predict(robot, state, high, np.zeros(robot.na), law="coulomb", dt=DT, options=options)
        return answer, derivatives(robot, state, high, np.zeros(robot.na), answer, law="coulomb", options=options)

    way = (
        float(-predict(robot, state, contacts.take(np.zeros(0, np.int64)), np.zeros(robot.na), law="coulomb", dt=DT).v_plus[2])
        * DT
    )
    for gap, loaded in ((0.5 * way, True), (2.0 * way, False)):
        answer, found = tick(gap)
        assert found.classical
        assert (answer.normal_force > 0.0).all() == loaded
    _, found = tick(way * (1.0 + 1e-9))
    assert [switch for switch in found.switches if "may close" in switch]


@every("law", ["sap", "convex"])
def test_laws_without_a_basis_are_refused(law):
    tick = Tick("coulomb", Options(), 0.0, 0)
    state, contacts, q_ddot, _ = tick.arguments()
    with pytest.raises(InputError, match="expected a law with a basis"):
        derivatives(tick.robot, state, contacts, q_ddot, tick.answer(), law=law)


def test_an_answer_of_another_law_is_refused():
    tick = Tick("coulomb", Options(), 0.0, 0)
    state, contacts, q_ddot, _ = tick.arguments()
    with pytest.raises(InputError, match="answer"):
        derivatives(tick.robot, state, contacts, q_ddot, tick.answer(), law="no-slip")
