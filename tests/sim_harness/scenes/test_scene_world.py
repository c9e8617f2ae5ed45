"""The model of a scene against mechanics that needs no engine: free flight, energy, rows by differences, forces over time."""

import msgspec
import numpy as np
import pytest
from fast import every, full

from sim_harness.engines.engine import ForwardProblem, ForwardSolution
from sim_harness.scenes.load import check_scene, engine_named, load_scene
from sim_harness.scenes.recording import Diverged, ForceTimes, residuals_of, run_scene
from sim_harness.scenes.scene import Closure, Constraints, force_now
from sim_harness.scenes.scene_model import SceneModel
from sim_harness.scenes.scene_settings import BodySettings, ClosureSettings, ForceSettings, JointSettings, SceneSettings, Shape
from sim_harness.world.worlds import build_scene

CUBE = Shape(box=(0.1, 0.2, 0.3))


def scene(*bodies, **settings):
    base = {"about": "", "engines": ("lcp",), "dt": 1e-3, "duration": 0.3}
    return check_scene(SceneSettings(body=bodies, **base | settings))


def test_a_spinning_body_in_free_flight_moves_straight():
    ball = BodySettings(name="a", shape=Shape(sphere=0.1), mass=1.0, velocity=(1.0, -2.0, 0.5), spin=(5.0, 20.0, 3.0))
    settings = scene(ball, gravity=0.0)
    run = run_scene(settings, engine_named(settings, "lcp"))
    np.testing.assert_allclose(run.centres[-1, 0], 0.3 * np.array(ball.velocity), atol=1e-12)
    np.testing.assert_allclose(run.spins[:, 0], np.broadcast_to(ball.spin, (301, 3)), atol=1e-10)
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=1e-12)


def test_a_box_that_falls_and_tumbles_keeps_its_energy_to_first_order():
    box = BodySettings(name="a", shape=CUBE, mass=2.0, turn=(0.3, 0.2, 0.1), spin=(1.0, 2.0, 3.0))
    drift = []
    for dt in (1e-3, 5e-4):
        settings = scene(box, dt=dt)
        run = run_scene(settings, engine_named(settings, "lcp"))
        drift.append(np.abs(run.energy - run.energy[0]).max())
    assert drift[1] < 0.6 * drift[0]


def test_the_initial_state_is_that_of_the_settings():
    box = BodySettings(
        name="a", shape=CUBE, mass=1.0, position=(1.0, 2.0, 3.0), turn=(0.3, 0.2, 0.1), velocity=(1, 2, 3), spin=(4, 5, 6)
    )
    model = SceneModel(scene(box))
    velocities, spins = model.motions(model.start.q, model.start.v)
    np.testing.assert_allclose(model.place(model.start.q)[1][0], box.position, atol=1e-14)
    np.testing.assert_allclose(velocities[0], box.velocity, atol=1e-14)
    np.testing.assert_allclose(spins[0], box.spin, atol=1e-14)


def test_gravity_is_inclined_with_the_ground():
    settings = load_scene("ramp-slides")
    model = SceneModel(settings)
    M, h, _ = model.terms(model.start.q, np.zeros(6))
    angle = settings.ground.slope
    np.testing.assert_allclose(h[:3], M[0, 0] * 9.81 * np.array([np.sin(angle), 0.0, np.cos(angle)]), atol=1e-12)


@every("kind", ["pin", "weld"])
def test_closure_rows_are_derivatives_of_the_gap(kind):
    bar = BodySettings(
        name="bar", shape=CUBE, mass=1.0, position=(0.1, 0.2, 0.3), joint=(JointSettings(kind="hinge", axis=(1, 2, 3)),)
    )
    free = BodySettings(name="free", shape=CUBE, mass=1.0, position=(0.3, 0.1, 0.2), turn=(0.3, 0.2, 0.1))
    model = SceneModel(scene(bar, free))
    closure = Closure(model, ClosureSettings(kind=kind, bodies=("free", "bar"), at=(0.2, 0.2, 0.2)))
    step, q = np.random.default_rng(1).normal(size=model.robot.nv), model.reference
    assert np.abs(closure.rows(q, model.terms(q, step)[2])[1]).max() < 1e-12
    for size in (0.0, 1e-3):  # of what is open, a weld's rows are exact at 0 only
        at = model.robot.integrate(q, size * step)
        ends = [model.robot.integrate(at, sign * 1e-6 * step) for sign in (1, -1)]
        ahead, behind = (closure.rows(x, model.terms(x, step)[2])[1] for x in ends)
        G = closure.rows(at, model.terms(at, step)[2])[0]
        np.testing.assert_allclose(G @ step, (ahead - behind) / 2e-6, atol=1e-7 if size == 0.0 or kind == "pin" else 1e-2)


def test_stops_are_one_sided_rows_with_the_remaining_distance():
    bar = BodySettings(
        name="bar", shape=CUBE, mass=1.0, joint=(JointSettings(kind="hinge", axis=(0, 1, 0), start=0.2, stop=(-1.0, 0.5)),)
    )
    model = SceneModel(scene(bar))
    rows = Constraints(model).rows(model.start.q, model.terms(model.start.q, model.start.v)[2])
    np.testing.assert_allclose(rows.g, [1.2, 0.3])
    np.testing.assert_array_equal(rows.G, [[1.0], [-1.0]])
    assert rows.stops.all()


@full
def test_a_pendulum_falls_onto_its_stop_and_stays_there():
    joint = JointSettings(kind="hinge", axis=(0, 1, 0), anchor=(0.0, 0.0, 0.0), stop=(-3.0, 0.3))
    bar = BodySettings(name="bar", shape=CUBE, mass=1.0, position=(0.2, 0.0, 0.0), joint=(joint,))
    settings = scene(bar, duration=1.0)
    for name in ("lcp", "penalty", "sap"):
        run = run_scene(settings, engine_named(settings, name))
        assert abs(run.v[-1, 0]) < 1e-3, name
        assert 0.29 < run.q[-1, 0] < 0.31, name


def test_a_square_wave_repeats():
    wave = ForceSettings(body="a", force=(2, 0, 0), otherwise=(1, 0, 0), start=1.0, duration=0.5, every=2.0)
    values = [force_now(wave, t)[0] for t in (0.5, 1.25, 1.75, 3.25, 3.75)]
    assert values == [1, 2, 1, 2, 1]


def test_springs_are_stable_however_stiff():
    joint = JointSettings(kind="slide", axis=(1, 0, 0), start=0.1, stiffness=1e9)
    settings = scene(BodySettings(name="a", shape=CUBE, mass=1.0, joint=(joint,)), dt=0.01)
    run = run_scene(settings, engine_named(settings, "lcp"))
    assert np.abs(run.q).max() <= 0.1


def test_a_diverged_world_reports_it():
    joint = JointSettings(kind="slide", axis=(1, 0, 0), start=0.1, stiffness=1e9)
    settings = scene(BodySettings(name="a", shape=CUBE, mass=1.0, joint=(joint,)), dt=0.01)
    with pytest.raises(Diverged, match="diverged at t = "):
        run_scene(settings, engine_named(settings, "sap"))  # forces at the beginning of the step


def test_the_checker_finds_wrong_answers():
    settings = load_scene("sliding-block")
    world = build_scene(settings, engine_named(settings, "lcp"))
    step = world.step()
    good, problem, effects = step.solution, step.problem, world.bodies.effects
    replace, stretch = msgspec.structs.replace, np.zeros(6)

    def found(solution: ForwardSolution, asked: ForwardProblem = problem):
        return residuals_of(asked, solution, effects, stretch, ForceTimes(0.0, 1.0, 1.0, 0.0))

    assert max(found(good).momentum, found(good).cone, found(good).gap_work, found(good).power) < 1e-12
    assert found(replace(good, v_plus=good.v_plus + 0.01)).momentum == pytest.approx(0.01)
    assert found(replace(good, p=good.p * [1.1, 1.1, 1.0])).cone > 1e-5
    assert found(replace(good, p=-good.p)).cone > 1e-3
    assert found(replace(good, p=good.p * [-1.0, 1.0, 1.0])).power > 1.0
    assert found(good, replace(problem, gaps=problem.gaps + 0.01)).gap_work == pytest.approx(0.01 * 9.81)
