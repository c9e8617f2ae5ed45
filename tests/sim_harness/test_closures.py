"""Linkages closed by constraint rows: their motion against closed forms, and drift over minutes."""

import numpy as np
import pytest
from fast import first_is_fast, full
from linkages import G, crank_rocker, crank_rocker_at, pendulum
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.no_slip import NoSlip
from sim_harness.world.worlds import ENGINES

SIMPLE = sorted(set(ENGINES) - {"sap"})
"""Those whose rows are eliminated in one place."""


def crossings(turns, dt):
    """Times at which it goes through the middle upwards, interpolated."""
    k = np.flatnonzero((turns[:-1] < 0) & (turns[1:] >= 0))
    return dt * (k + turns[k] / (turns[k] - turns[k + 1]))


@pytest.mark.parametrize("engine", first_is_fast(SIMPLE))
def test_a_pinned_rod_is_a_pendulum(engine):
    """Period 4 K(sin²(α/2)) / ω of a swing by α = 1 rad, and the swing stays as large as it is."""
    rod, dt = pendulum(1.0), 1e-3
    turns = []
    for _ in range(6000):
        assert rod.step(ENGINES[engine](), dt).status.ok
        turns.append(rod.q[2])
    omega = np.sqrt(1.5 * G / 0.6)
    period = 4 * ellipk(np.sin(0.5) ** 2) / omega
    np.testing.assert_allclose(np.diff(crossings(np.array(turns), dt)), period, rtol=1e-4)
    assert np.max(turns[-1600:]) == pytest.approx(1.0, abs=2e-3)
    assert rod.drift() < 1e-5


def test_a_pinned_rod_moves_as_a_pendulum_with_a_joint():
    """One coordinate against three and two rows: the difference goes with dt."""
    off = []
    for dt in (2e-3, 1e-3):
        rod, turn, speed = pendulum(1.0), 1.0, 0.0
        for _ in range(round(2.0 / dt)):
            rod.step(PolygonLcp(), dt)
            speed -= dt * 1.5 * G / 0.6 * np.sin(turn)
            turn += dt * speed
        off.append(abs(rod.q[2] - turn))
    assert off[0] < 5e-3
    assert off[1] < 0.6 * off[0]


def crank_motion(crank, speed, times):
    """Crank angle of the four-bar by its one degree of freedom: ½ I(φ) φ̇² + V(φ) is kept, I and V by the closed form."""
    linkage, q_of = crank_rocker(crank, speed)
    M = np.diag(linkage.M)

    def slope(angle):
        return (q_of(angle + 1e-5) - q_of(angle - 1e-5)) / 2e-5

    def inertia(angle):
        return M @ slope(angle) ** 2

    def height(angle):
        return G * (M[1::3] @ q_of(angle)[1::3])

    def rate(_, y):
        e = 1e-4
        dI = (inertia(y[0] + e) - inertia(y[0] - e)) / (2 * e)
        dV = (height(y[0] + e) - height(y[0] - e)) / (2 * e)
        return [y[1], (-0.5 * dI * y[1] ** 2 - dV) / inertia(y[0])]

    return solve_ivp(rate, (0, times[-1]), [crank, speed], t_eval=times, rtol=1e-9, atol=1e-10).y[0]


@full
@pytest.mark.parametrize("doubled", [False, True])
def test_a_four_bar_follows_its_closed_form(doubled):
    """Crank and rocker: turns by the law of cosines at all times, the crank's motion by energy alone; redundant rows or not."""
    off = []
    for dt in (1e-3, 5e-4):
        linkage, _ = crank_rocker(0.3, 40.0)
        times = dt * np.arange(1, round(0.4 / dt) + 1)
        cranks = []
        for _ in times:
            solution = linkage.step(NoSlip(), dt, doubled)
            assert solution.status.ok
            cranks.append(linkage.q[2])
            coupler, rocker, _, _ = crank_rocker_at(linkage.q[2])
            np.testing.assert_allclose(np.sin(linkage.q[[5, 8]] - [coupler, rocker]), 0, atol=1e3 * dt**2)  # as pins are open
        assert linkage.q[2] > 2 * np.pi  # all the way round
        off.append(np.abs(cranks - crank_motion(0.3, 40.0, times)).max())
    assert off[0] < 0.2
    assert off[1] < 0.6 * off[0]


@pytest.mark.long
def test_drift_over_minutes_is_bounded_and_of_second_order():
    """Swings of minutes: closures are open by what one step leaves, 4 times less at half the step; energy never grows."""
    worst = []
    for dt, minutes in ((2e-3, 3), (1e-3, 1)):
        linkage, _ = crank_rocker(0.3, 15.0)
        drift, energies = [], []
        for _ in range(round(60 * minutes / dt)):
            assert linkage.step(PolygonLcp(), dt).status.ok
            drift.append(linkage.drift())
            energies.append(linkage.energy())
        by_part = np.array(drift).reshape(6, -1).max(axis=1)
        assert (np.diff(by_part) <= 1e-7).all()
        assert (np.diff(np.array(energies).reshape(6, -1).max(axis=1)) <= 0).all()
        worst.append(by_part[0])
    assert worst[0] < 1e-4
    assert worst[1] == pytest.approx(worst[0] / 4, rel=0.05)
