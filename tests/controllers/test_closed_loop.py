"""Controller and simulated world in closed loop: robots do not fall, and contact forces match the prediction."""

import numpy as np
import pytest
from fast import every, fast, first_is_fast
from rigs import RIGID, controller

from controllers.command import Inputs, Mode
from controllers.controller import Controller
from controllers.robot.load import load_robot
from idyn.contact.terrain import Flat
from sim_harness.engines.penalty import Penalty
from sim_harness.world.worlds import ENGINES, build_world

DT = 0.001
FREE_OF_LIMITS = {"safety__torque_rate": np.inf, "safety__first_command_guard": 0.0}
EXACT = RIGID | FREE_OF_LIMITS


def world_of(name, engine="lcp", **settings):
    robot, stance = load_robot(name)
    return build_world(ENGINES[engine](**settings), robot, Flat(), stance)


class Loop:
    """One second of it is a thousand of these."""

    def __init__(self, c, world):
        self.c, self.world, self.applied = c, world, None
        self.taus, self.bases, self.predicted, self.simulated, self.modes = [], [], [], [], []

    def tick(self, k):
        state = self.world.state
        inputs = Inputs(dt=DT * (k > 0), tau_applied=self.applied)
        command = self.c.step(state, self.c.contacts(state.q), inputs)
        result = self.world.step(command.tau, DT)
        self.applied = command.tau
        self.taus.append(command.tau)
        self.bases.append(self.world.q[:3].copy())
        self.modes.append(command.mode)
        self.predicted.append(command.prediction.normal_force.sum() if command.prediction else np.nan)
        self.simulated.append(result.normal_force.sum())
        assert result.status.ok

    def run(self, steps):
        for k in range(steps):
            self.tick(k)
        return self


@every("law", ["no-slip", "coulomb", "convex"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_the_robot_stands_and_the_predicted_forces_carry_its_weight(name, law):
    """The same model on both sides: Σ f_N agrees to 1e-6, and the base stays within a micrometre."""
    c = controller(name, law=law, selection="torque", **EXACT)
    loop = Loop(c, world_of(name)).run(300)
    assert set(loop.modes) == {Mode.OK}
    np.testing.assert_allclose(loop.bases, np.broadcast_to(c.stance[:3], (300, 3)), atol=1e-6)
    np.testing.assert_allclose(loop.predicted, loop.simulated, rtol=1e-6)
    np.testing.assert_allclose(loop.simulated, c.robot.total_mass * 9.81, rtol=1e-6)


@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb"]))
@every(("kind", "axis"), [("sway", 1), ("squat", 2)])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_motion_and_contact_forces_match_the_prediction(name, kind, axis, law):
    """A sway or squat of a centimetre under the rigid engine: the base goes where it should, forces as predicted to 1e-6."""
    motion = {"reference__kind": kind, "reference__start": 0.0, "reference__ramp": 0.3}
    c = controller(name, law=law, selection="torque", **motion, **EXACT)
    loop = Loop(c, world_of(name)).run(600)
    assert set(loop.modes) == {Mode.OK}
    np.testing.assert_allclose(loop.predicted, loop.simulated, rtol=1e-6)
    travel = np.array(loop.bases)[:, axis] - c.stance[axis]
    t = DT * np.arange(1, 601)
    ramp = np.minimum(t / 0.3, 1)
    wanted = 0.01 * ramp**3 * (10 - 15 * ramp + 6 * ramp**2) * np.sin(2 * np.pi * t)
    np.testing.assert_allclose(travel, wanted, atol=1e-3)
    assert np.abs(travel).max() > 0.009


def test_selection_removes_the_chatter_of_an_indeterminate_stance():
    """Basic solutions found anew each tick jump between feet; with it torques are smooth, at the same motion [ZD Table 4]."""
    settings = {"law": "coulomb", "consistency": "stick", "warm_start": False} | EXACT
    settings |= {"reference__kind": "squat", "reference__start": 0.0}
    loops = {
        selection: Loop(controller("solo12", selection=selection, **settings), world_of("solo12")).run(500)
        for selection in ("torque", "off")
    }
    np.testing.assert_allclose(loops["torque"].bases, loops["off"].bases, atol=1e-9)
    rate = {key: np.abs(np.diff(loop.taus, axis=0)).mean() / DT for key, loop in loops.items()}
    assert rate["off"] > 100 * rate["torque"]


@every("kind", ["sway", "squat"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_cold_starts_are_solved_by_their_first_rung(name, kind):
    """A stance is as degenerate as a contact problem gets. Begun anew at every tick, the law needs no regularisation, and the
    demand on which all feet stay is not given up."""
    settings = EXACT | {"law": "coulomb", "selection": "off", "warm_start": False, "ground__drift": True}
    c = controller(name, reference__kind=kind, reference__start=0.0, **settings)
    world = world_of(name)
    for k in range(300):
        state = world.state
        command = c.step(state, c.contacts(state.q), Inputs(dt=DT * (k > 0)))
        assert (command.prediction.law, command.prediction.rung) == ("coulomb", "cold")
        assert command.prediction.demand_change > 0 or k < 2
        world.step(command.tau, DT)


def test_rate_and_torque_limits_are_kept_in_the_loop():
    c = controller("solo12", safety__torque_rate=200.0)
    loop = Loop(c, world_of("solo12")).run(200)
    taus = np.array(loop.taus)
    assert np.abs(taus).max() <= 2.7
    assert np.abs(np.diff(taus, axis=0)).max() <= 0.2 + 1e-12


@every("engine", ["lcp", "penalty"])
@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "cone"], "coulomb"))
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "solo12"]))
def test_the_shipped_controller_stands_on_rigid_and_on_soft_ground(name, law, engine):
    """Another contact model than the law's: the robot sinks as far as four springs give under its weight, on rigid ground not
    at all, and the forces are those predicted."""
    c = controller(name, law=law)
    loop = Loop(c, world_of(name, engine)).run(600)
    weight = c.robot.total_mass * 9.81
    sinkage = weight / (4 * Penalty().kp) if engine == "penalty" else 0.0
    assert c.stance[2] - loop.bases[-1][2] == pytest.approx(sinkage, abs=1e-6)
    assert loop.simulated[-1] == pytest.approx(weight, rel=0.01)
    assert loop.predicted[-1] == pytest.approx(loop.simulated[-1], rel=0.01)
    assert np.abs(np.diff(loop.taus[-100:], axis=0)).mean() / DT < 5.0


@pytest.mark.parametrize(("name", "steps"), first_is_fast([("go2-trot", 700), ("go2", 200), ("g1-walk", 300)]))
def test_a_run_in_utm_coordinates_is_that_at_the_origin(name, steps):
    """5500 km away, where positions are rounded to 0.9 nm: every torque within 5 µN·m, the base within 0.1 µm."""
    loops = []
    for x, y in ((0.0, 0.0), (4.5e5, 5.5e6)):
        c = controller(name, **({"reference__path": {"waypoints": [[x + 2.0, y]]}} if name == "go2-trot" else {}))
        stance = c.stance.copy()
        stance[:2] += x, y
        c = Controller(c.settings, c.robot, stance)
        loops.append(Loop(c, build_world(ENGINES["lcp"](), c.robot, c.terrain, stance)).run(steps))
        assert set(loops[-1].modes) == {Mode.OK}
        loops[-1].bases -= np.array([x, y, 0.0])
    here, there = loops
    np.testing.assert_allclose(there.taus, here.taus, rtol=0.0, atol=5e-6)
    np.testing.assert_allclose(there.bases, here.bases, rtol=0.0, atol=1e-7)
