"""`idyn judge`: wrong solutions are named, right ones pass; verdicts do not depend on the scale of mass."""

import numpy as np
import pytest
from fast import every, fast

from sim_harness.judge.step import step_of
from sim_harness.judge.verdict import ANSWERS, Kind, answer_to, judge

DT, G = 1e-3, 9.81


class System:
    """Inertia and contact Jacobian; a step is made from the p and u⁺ that it should have."""

    def __init__(self, M, J, mu=0.5):
        self.M, self.J, self.mu = np.array(M), np.array(J), mu

    def step(self, p, u_plus, v_other=0.0, gaps=None):
        """Momentum holds: the force is what v, v⁺ and p need. v_other: velocity before the step, beside that of v⁺"""
        p, u_plus = np.array(p, dtype=float).ravel(), np.array(u_plus, dtype=float).ravel()
        v_plus = np.linalg.pinv(self.J) @ u_plus
        v = v_plus + v_other
        force = (self.M @ (v_plus - v) - self.J.T @ p) / DT
        data = {"M": self.M, "J": self.J, "v": v, "v_plus": v_plus, "p": p, "mu": self.mu, "dt": DT, "force": force}
        return step_of("step", data | ({} if gaps is None else {"gaps": gaps}))


def cube():
    """10 kg, four corners on the ground."""
    rows = []
    for x in (-0.1, 0.1):
        for y in (-0.1, 0.1):
            r = np.array([x, y, -0.1])
            rows.append(np.hstack([np.eye(3), np.array([[0, r[2], -r[1]], [-r[2], 0, r[0]], [r[1], -r[0], 0]])]))
    return System(np.diag([10.0, 10.0, 10.0, 0.07, 0.07, 0.07]), np.vstack(rows))


def linkage():
    """A random inertia of nine degrees of freedom with two contacts."""
    rng = np.random.default_rng(5)
    B = rng.normal(size=(9, 9))
    return System(B @ B.T + np.eye(9), rng.normal(size=(6, 9)))


SYSTEMS = {
    "point": System(2.0 * np.eye(3), np.eye(3)),
    "mite": System(1.6e-7 * np.eye(3), np.eye(3)),
    "cube": cube(),
    "linkage": linkage(),
}


def loads(system):
    """What each contact carries of the weight in a step [N·s]."""
    return np.diag(system.M)[0] * G * DT / (len(system.J) // 3)


def rigid(system, linear):
    """Contact velocities of a translation, where the system is a body; else the same at each contact."""
    return np.tile(np.array(linear, dtype=float), len(system.J) // 3)


def alike(system, shares):
    """The same impulse at each contact, as shares of its load."""
    return loads(system) * np.tile(np.array(shares, dtype=float), len(system.J) // 3)


WRONG = {
    Kind.PENETRATES: ((0.1, 0.0, 0.5), (0.0, 0.0, -0.005)),
    Kind.PULLS: ((0.0, 0.0, -0.2), (0.0, 0.0, 0.3)),
    Kind.OUTSIDE: ((0.6, 0.3, 1.0), (0.0, 0.0, 0.0)),
    Kind.SLIPS: ((-0.2, 0.1, 1.0), (0.004, -0.002, 0.0)),
    Kind.ENERGY: ((0.5, 0.0, 1.0), (1.0, 0.0, 0.0)),
}
"""Kind → impulses in loads, and u⁺ [m/s]; all else is right."""


@every("name", SYSTEMS)
@every("kind", WRONG)
def test_twenty_wrong_solutions_are_named(kind, name):
    """Five kinds in four systems, from 0.16 mg to 10 kg: this kind and no other, by the amount that it has."""
    system, (shares, u_plus) = SYSTEMS[name], WRONG[kind]
    verdict = judge(system.step(alike(system, shares), rigid(system, u_plus)))
    assert verdict.kinds == (kind,)
    load, worst = loads(system), verdict.violations[0].amount
    expected = {
        Kind.PENETRATES: 0.005,
        Kind.PULLS: 0.2 * load,
        Kind.OUTSIDE: (np.hypot(0.6, 0.3) - 0.5) * load,
        Kind.SLIPS: np.hypot(0.004, 0.002),
        Kind.ENERGY: 0.5 * load * (len(system.J) // 3),
    }
    assert worst == pytest.approx(expected[kind], rel=1e-9)


RIGHT = {
    "sticks": ((0.2, 0.1, 1.0), (0.0, 0.0, 0.0)),
    "slides": ((-0.3, 0.4, 1.0), (0.6, -0.8, 0.0)),
    "parts": ((0.0, 0.0, 0.0), (0.3, 0.1, 0.2)),
    "slides without load": ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
}


@every("name", SYSTEMS)
@every("case", RIGHT)
def test_right_solutions_pass(case, name):
    system, (shares, u_plus) = SYSTEMS[name], RIGHT[case]
    verdict = judge(system.step(alike(system, shares), rigid(system, u_plus), v_other=0.02))
    assert verdict.good, verdict.violations
    assert verdict.laws["exact-cone"] < 1e-12


@every("speed", [0.4, 1.0, 1.5])
def test_a_bounce_gains_energy_when_it_is_faster_than_the_impact(speed):
    """1 m/s down, then up: the contacts take or add ½ m (speed² − 1)."""
    system = SYSTEMS["point"]
    verdict = judge(system.step([0, 0, 2.0 * (1.0 + speed)], [0, 0, speed], v_other=np.array([0, 0, -1.0 - speed])))
    assert verdict.energy.contacts == pytest.approx(speed**2 - 1.0, abs=1e-12)
    assert (Kind.ENERGY in verdict.kinds) == (speed > 1.0)
    assert Kind.PUSHES in verdict.kinds  # no inelastic law


def test_other_errors_are_named():
    system = SYSTEMS["point"]
    step = system.step(alike(system, (-0.5, 0.0, 1.0)), [0.0, 0.3, 0.0])
    assert judge(step).kinds == (Kind.SIDEWAYS,)
    step = system.step(alike(system, (0.0, 0.0, 1.0)), [0.0, 0.0, 0.0], gaps=[1e-3])
    assert judge(step).kinds == (Kind.PUSHES,)  # at a distance of 1 mm
    right = system.step(alike(system, (0.0, 0.0, 1.0)), [0.0, 0.0, 0.0])
    wrong = type(right)(name="", problem=right.problem, p=right.p, v_plus=right.v_plus + 1e-5)
    assert judge(wrong).violations[0].kind is Kind.MOMENTUM
    assert judge(wrong).violations[0].amount == pytest.approx(2e-5, rel=1e-9)


def test_a_contact_may_leave_its_penetration_within_the_step():
    """1 mm deep: up to 1 m/s at 1 ms, its work against gravity is not from nothing; faster is."""
    system = SYSTEMS["point"]
    for speed, good in ((0.5, True), (1.0, True), (1.1, False)):
        verdict = judge(system.step([0, 0, 2.0 * speed], [0, 0, speed], v_other=np.array([0, 0, -speed]), gaps=[-1e-3]))
        assert verdict.good == good
        assert verdict.depth == 1e-3


def test_the_polygon_is_inside_the_cone_and_told_apart():
    """Sliding along x + y/2, friction at a corner of the polygon of four: right under `coulomb`, wrong under the round cone."""
    system = SYSTEMS["point"]
    verdict = judge(system.step(alike(system, (-0.5, 0.0, 1.0)), [1.0, 0.5, 0.0]))
    assert verdict.laws["coulomb"] < 1e-12 < verdict.laws["exact-cone"]
    assert verdict.kinds == (Kind.SIDEWAYS,)


@pytest.mark.parametrize("name", fast(SYSTEMS, "mite", "cube"))
@every("law", ["exact-cone", "coulomb"])
def test_the_answer_beside_a_wrong_solution_is_right(law, name):
    system = SYSTEMS[name]
    for shares, u_plus in WRONG.values():
        step = system.step(alike(system, shares), rigid(system, u_plus))
        answer = answer_to(step, law)
        assert answer.laws[law] < 1e-6, answer
        assert not {Kind.MOMENTUM, Kind.ENERGY, Kind.PENETRATES, Kind.PULLS, Kind.OUTSIDE} & set(answer.kinds)
        assert np.array_equal(answer.step.problem.M, step.problem.M)
    assert set(ANSWERS) >= {"exact-cone", "coulomb"}
