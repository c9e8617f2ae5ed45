"""Stability of the vertical leg: eigenvalues against the closed form, and against a simulation of its own in small steps."""

from collections import deque

import numpy as np
from fast import every

from controllers.build import load_controller
from controllers.floors import VerticalLeg, critical_damping, floor_map, floor_warning, spectral_radius

QUADRUPED = VerticalLeg(base=1.15, foot=0.05, kp=900.0, kd=60.0)
SOFT = VerticalLeg(base=1.15, foot=0.05, kp=400.0, kd=40.0, relaxation=0.025)
RIGID = VerticalLeg(base=1.15, foot=0.05, kp=900.0, kd=60.0, relaxation=0.0, memory=0.0)


def growth(leg, k, d, delay, seconds=0.6, steps=200):
    """Ratio of the motion in the last quarter of a simulation to that in the second quarter; about the equilibrium."""
    zf, zb, u, w, f = 1e-6, -1e-6, 0.0, 0.0, 0.0
    m, dt, h, relaxation = leg.base + leg.foot, leg.period, leg.period / steps, leg.relaxation or leg.period
    queue, expected, sizes = deque([0.0] * delay), deque([(0.0, 0.0)] * delay), []
    for _ in range(round(seconds / dt)):
        a, b, p, s = zf, zb, u, w
        for du, dw in expected:
            p, s = p + du, s + dw
            a, b = a + dt * p, b + dt * s
        wanted = -leg.kp * (b - a) - leg.kd * (s - p)
        # a foot of the rigid law: F with u⁺ = (1 − dt/T_r) u − (T_p/m) (F − F⁻), m u̇ = F − m_b q̈
        left = np.array([[dt / m + leg.memory / m]])
        right = np.array([-dt / relaxation * p + dt * leg.base * wanted / m + leg.memory / m * f])
        f = float(np.linalg.solve(left, right)[0])
        foot_rate = (f - leg.base * wanted) / m
        tau = leg.base * (foot_rate + wanted) - leg.torque_kp * (b - a) - leg.torque_kd * (s - p)
        queue.append(tau)
        expected.append((dt * foot_rate, dt * (foot_rate + wanted)))
        acting = queue.popleft()
        expected.popleft()
        for _ in range(steps):
            u += h * (-k * zf - d * u - acting) / leg.foot
            w += h * acting / leg.base
            zf, zb = zf + h * u, zb + h * w
        sizes.append(abs(u) + abs(w))
        if sizes[-1] > 1e6:
            return np.inf
    quarter = len(sizes) // 4
    return max(sizes[-quarter:]) / max(sizes[quarter : 2 * quarter])


@every("leg", [QUADRUPED, SOFT, RIGID])
@every("delay", [0, 1, 3])
def test_eigenvalues_agree_with_a_simulation(leg, delay):
    judged = 0
    for k in (1e3, 2e4, 3e5):
        for d in (0.5, 8.0, 60.0):
            radius = spectral_radius(leg, k, d, delay)
            if abs(radius - 1.0) > 0.01:
                judged += 1
                assert (growth(leg, k, d, delay) > 1.0) == (radius > 1.0), (k, d, radius)
    assert judged


def test_a_passive_foot_is_stable_on_every_floor_without_delay():
    """For short periods: passivity is a statement about continuous time. Far less damping is too little on some floor."""
    rng, unstable = np.random.default_rng(3), 0
    for _ in range(60):
        leg = VerticalLeg(
            base=rng.uniform(0.5, 10.0),
            foot=rng.uniform(0.02, 0.4),
            kp=10 ** rng.uniform(1.0, 3.0),
            kd=10 ** rng.uniform(0.5, 2.0),
            torque_kd=rng.uniform(0.0, 5.0),
            relaxation=10 ** rng.uniform(-2.0, -1.0),
            memory=10 ** rng.uniform(-3.0, -2.0),
            period=1e-5,
        )
        needed = max(leg.passive_damping, 0.0)
        for k in (1e2, 1e3, 1e5):
            assert spectral_radius(leg, k, 1.02 * needed + 0.5, 0) < 1.0 + 1e-9
            unstable += needed > 50.0 and spectral_radius(leg, k, 0.3 * needed, 0) > 1.0
    assert unstable > 10


def test_the_rigid_law_needs_much_damping_and_tolerates_no_delay():
    assert critical_damping(RIGID, 1e4, 0) > 500.0
    assert critical_damping(RIGID, 1e4, 1) == np.inf
    assert critical_damping(QUADRUPED, 1e4, 0) < 5.0


@every("name", ["quadruped", "go2"])
def test_the_map_of_a_shipped_robot(name):
    found, light = floor_map(load_controller(name))
    assert max(found[0]) < light
    assert max(found[5]) > max(found[0])


@every("name", ["arm", "fivebar"])
def test_robots_without_a_free_base_have_no_map(name):
    assert floor_map(load_controller(name)) is None


@every("name", ["go2-trot", "solo12", "quadruped-trot", "arm"])
def test_shipped_controllers_are_not_warned_about(name):
    assert floor_warning(load_controller(name)) == ""


@every(
    ("name", "changes", "cause"),
    [
        ("go2", {"period": 0.01}, "period = 0.01 s (stable with 0.001 s):"),
        ("go2", {"ground": {"relaxation": 0.005}}, "ground.relaxation = 0.005 s (stable with 0.05 s):"),
        ("go2", {"feedback": {"kp": 1e4, "kd": 2e3}}, "feedback.kp = 10000, feedback.kd = 2000 on a foot of"),
        ("paper-stand", {}, "ground.relaxation = 0 s (stable with 0.05 s)"),
    ],
)
def test_settings_that_cannot_hold_are_named(name, changes, cause):
    """The map, which `idyn check` prints, agrees."""
    controller = load_controller(name, changes)
    found, light = floor_map(controller)
    assert max(found[0]) > light
    assert cause in floor_warning(controller)
