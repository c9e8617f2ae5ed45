"""Grasps: an arm that holds a box, and forces of bodies that are held."""

from collections import defaultdict

import numpy as np
import pytest
from fast import every, fast, first_is_fast, full
from problems import step_problem

from controllers.build import build_controller, changed
from controllers.command import Inputs, Mode
from controllers.config.loading import parse
from controllers.settings import ControllerSettings
from idyn import ConfigError, Flat, State, Status, load_robot
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.run import experiment
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.studies.scenes.load import check_scene, engine_named
from sim_harness.studies.scenes.scene_settings import BodySettings, ForceSettings, JointSettings, Material, SceneSettings, Shape
from sim_harness.studies.scenes.world import build_scene
from sim_harness.world.worlds import ENGINES, build_world
from transport.startup.loopback import Loopback

DT = 1e-3
G = 9.81
MASS = 6000 * 0.05071**3
FINGERS = ["F_00", "F_01", "F_10", "F_11"]
RIGID = pytest.mark.parametrize("engine", first_is_fast(["lcp", "newton"]))


def world(mu=100.0, engine="lcp"):
    robot, q = load_robot("arm")
    return build_world(ENGINES[engine](), robot, Flat(-0.2), q, mu=np.full(len(robot.contact_names), mu))


def carry(law, mu, seconds, **changes):
    plan = load_plan("grasp", seconds)
    return run_in_process(with_controller(plan, {"law": law, "contact": {"mu": mu}, **changes}), law, lambda *_: None)


@every("engine", ["lcp", "dissipation", "penalty"])
def test_the_box_receives_the_opposite_of_the_finger_forces(engine):
    """The momentum of the box changes by its weight and by the opposite of the finger forces."""
    w = world(0.7, engine)
    rng = np.random.default_rng(0)
    robot = w.robot
    pressed = 0
    for _ in range(20):
        speed = w.v.copy()
        contacts = w.contacts
        turn, _ = (a.copy() for a in robot.place(w.q))
        joint = robot.joint_of_frame("BOX")
        result = w.step(np.r_[0.2 * rng.normal(size=7), np.full(4, 0.2)], DT)
        assert result.status.ok
        on_box = -result.impulse[contacts.others == joint].sum(axis=0)
        pressed += np.linalg.norm(on_box) > 1e-4
        # v of a free joint is in body axes: ṗ = m (v⁺ − v + dt ω × v)
        change = w.v[:3] - speed[:3] + DT * np.cross(speed[3:6], speed[:3])
        np.testing.assert_allclose(MASS * turn[joint] @ change, on_box - [0, 0, MASS * G * DT], atol=1e-9)
    assert pressed >= 19  # the fingers begin a fraction of a micrometre off the box


@full
@pytest.mark.parametrize(("law", "mode"), fast([("no-slip", "ok"), ("coulomb", "ok"), ("convex", "degraded")], "convex"))
def test_forces_that_the_world_does_not_confirm_are_reported(law, mode):
    """The arm follows its path under each of them, but the normal forces of [ZD Eq. 69] do not exist in the world."""
    run = carry(law, 100.0, 0.6)
    assert run.trace.modes[run.trace.mode[-1]] == mode


@full
def test_finger_forces_match_the_prediction():
    """The world is a time-stepper whose step is the period: its law is at J v⁺."""
    run = carry("coulomb", 1.0, 0.3, ground={"drift": False})
    assert run.summary.force_error < 1e-4
    assert run.summary.force > 15.0
    assert np.isfinite(run.trace.predicted[:, -4:]).all()


def squeezing(consistency, squeeze=0.1):
    grip = {"kind": "speed", "joints": FINGERS, "squeeze": squeeze}
    given = {"robot": "arm", "law": "no-slip", "consistency": consistency, "selection": "torque", "grip": grip}
    given |= {"contact": {"ground": -0.2, "mu": 100.0}, "ground": {"kind": "rigid"}}
    settings = parse(given, ControllerSettings, "test")
    controller = build_controller(settings)
    w = world()
    w.reset(controller.stance)
    commands = []
    for _ in range(50):
        commands.append(controller.step(w.state, controller.contacts(w.q), Inputs(dt=DT)))
        w.step(commands[-1].tau, DT)
    return w, commands


@every("consistency", ["project", "stick", "hold"])
def test_a_demand_to_close_through_the_box_is_changed_and_reported(consistency):
    w, commands = squeezing(consistency)
    assert {c.mode for c in commands} == {Mode.OK}
    assert all(c.prediction.residuals.worst < 1e-8 for c in commands)
    assert min(c.prediction.demand_change for c in commands[5:]) > 1e-3
    assert np.abs(w.contacts.gaps).max() < 1e-5
    assert np.abs(w.q[:3]).max() < 1e-3


def test_without_projection_the_grasp_is_not_certified():
    _, commands = squeezing("off")
    assert Mode.DEGRADED in {c.mode for c in commands[:5]}


@every(("law", "falls"), [("coulomb", True), ("no-slip", False)])
def test_fingers_at_rest_leave_the_grip_force_undetermined(law, falls):
    """With their motion prescribed a falling box is a certified answer of the Coulomb law; without slip it is not."""
    settings = load_plan("grasp").controller
    paper = {"kind": "speed", "joints": settings.grip.joints}
    controller = build_controller(changed(settings, {"law": law, "grip": paper}))
    state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
    prediction = controller.step(state, controller.contacts(state.q), Inputs(dt=0.0)).prediction
    assert prediction.law == law
    assert prediction.residuals.worst < 1e-8
    acceleration = prediction.v_plus[2] / DT
    assert acceleration < -0.3 * G if falls else abs(acceleration) < 1e-3


def test_finger_springs_determine_the_grip_force():
    """The same grasp with a known torque in the fingers: each law holds the box up, with the normal force of the spring."""
    settings = load_plan("grasp").controller
    for law in ("coulomb", "no-slip"):
        controller = build_controller(changed(settings, {"law": law}))
        state = State(q=controller.stance, v=np.zeros(controller.robot.nv))
        command = controller.step(state, controller.contacts(state.q), Inputs(dt=0.0))
        assert abs(command.prediction.v_plus[2]) / DT < 0.05
        np.testing.assert_allclose(command.tau_fb[-4:], 20.0 * (-0.7754 + 0.785398), atol=1e-6)
        assert (command.tau_ff[-4:] == 0).all()
        assert 15 < command.prediction.normal_force.sum() < 30


def test_the_change_of_the_demand_is_reported_on_the_wire(monkeypatch):
    replies = []

    class Listening(Loopback):
        def exchange(self, state):
            replies.append(super().exchange(state))
            return replies[-1]

    monkeypatch.setattr(experiment, "Loopback", Listening)
    changes = {"law": "no-slip", "consistency": "project", "grip": {"kind": "speed", "joints": FINGERS, "squeeze": 0.1}}
    experiment.run_in_process(with_controller(load_plan("grasp", 0.02), changes), "no-slip", lambda *_: None)
    assert max(reply.solver.demand_change for reply in replies) > 1e-3


def test_invalid_grips_are_refused():
    base = {"robot": "arm"}
    for grip, named in (
        ({"kind": "spring", "joints": ["F_0"], "targets": [0.0]}, r"grip\.joints: no actuated joint named 'F_0'"),
        ({"kind": "spring", "joints": FINGERS, "targets": [0.0]}, r"grip\.targets: expected 4"),
        ({"joints": FINGERS, "targets": [0.0]}, r"grip\.kind: expected one of spring, speed"),
        ({"kind": "speed", "joints": FINGERS, "kp": 1.0}, r"grip\.kp: no such setting of 'speed'; it belongs to spring"),
    ):
        with pytest.raises(ConfigError, match=named):
            build_controller(parse({**base, "grip": grip}, ControllerSettings, "test"))


def scene(*bodies, **settings):
    return check_scene(SceneSettings(about="", engines=("lcp", "newton"), dt=DT, duration=1.0, body=bodies, **settings))


def grip(seed):
    """A box in a grip of 16 to 30 N that could carry three to eleven times its weight: of random size, place and turn."""
    rng = np.random.default_rng(seed)
    thick, force, material = rng.uniform(0.01, 0.05), rng.uniform(16.0, 30.0), Material(mu=0.6)
    slide = (JointSettings(kind="slide", axis=(1.0, 0.0, 0.0)),)
    pad, away = Shape(box=(0.02, 0.03, 0.04)), thick / 2 + 0.01
    held = BodySettings(
        name="held",
        shape=Shape(box=(thick, *rng.uniform(0.03, 0.08, 2))),
        mass=rng.uniform(0.1, 0.6),
        position=(0.0, *rng.uniform(-3e-3, 3e-3, 2)),
        turn=(rng.normal() if seed % 2 else 0.0, 0.0, 0.0),
        material=material,
    )
    places = {"left": (-away, 0.0, 0.0), "right": (away, 0.0, 0.0)}
    made = {"shape": pad, "mass": 0.1, "material": material, "joint": slide}
    pads = [BodySettings(name=name, position=place, **made) for name, place in places.items()]
    return scene(pads[0], held, pads[1], force=tuple(
        ForceSettings(body=name, force=(push, 0.0, 0.0)) for name, push in (("left", force), ("right", -force))
    ))  # fmt: skip


def followed(settings, engine, steps, settled=0):
    """Simulate; statuses, centres at both ends [m], and the largest change of a contact's force after `settled` steps [N]."""
    world, statuses, forces = build_scene(settings, engine_named(settings, engine)), [], defaultdict(list)
    start = world.bodies.place(world.q)[1].copy()
    for k in range(steps):
        step = world.step()
        statuses.append(step.status)
        if k >= settled:
            for key, force in zip(step.contacts.keys, step.force, strict=True):
                forces[key].append(force)
    change = max((np.ptp(each, axis=0).max() for each in forces.values()), default=0.0)
    return statuses, start, world.bodies.place(world.q)[1], change


@RIGID
@pytest.mark.parametrize("seed", fast(range(20)))
def test_a_gripped_box_does_not_slip_and_its_forces_are_steady(engine, seed):
    statuses, start, end, change = followed(grip(seed), engine, 500, settled=100)
    assert set(statuses) == {Status.SOLVED}
    assert np.abs(end - start).max() < 1e-6
    assert change < 1e-3


@RIGID
def test_four_corners_share_a_load_off_the_centre_as_evenly_as_they_can(engine):
    """Three equations for four normal impulses: the least Σ w p² with the corners' inverse masses w."""
    mass, inertia, load = 2.0, 0.02, (0.02, 0.03)
    x, y = np.array([[0.1, 0.1, -0.1, -0.1], [0.15, -0.15, 0.15, -0.15]])
    # velocities: height of the centre of mass at `load`, and rates at which points along x and y rise
    normals = np.column_stack([np.ones(4), x - load[0], y - load[1]])
    J = np.zeros((12, 3))
    J[2::3] = normals
    M, h = np.diag([mass, inertia, inertia]), np.array([mass * G, 0.0, 0.0])
    problem = step_problem(M, J, 0.5, h=h)
    solution = {"lcp": PolygonLcp(), "newton": Newton()}[engine].solve(problem)
    root = np.sqrt(np.einsum("ij,j,ij->i", normals, 1.0 / np.diag(M), normals))
    known = np.linalg.lstsq(normals.T / root, DT * h, rcond=None)[0] / root
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(solution.p[:, 2], known, rtol=5e-3)
    assert np.abs(solution.v_plus).max() < 1e-9


def between_walls(gap):
    """A block of 1 kg between two walls that its sides touch with a gap [m]; a step from rest."""
    to_left, to_right = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0.0]]), np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0.0]])
    return step_problem(np.eye(3), np.vstack([to_left, to_right]), 0.5, h=[0.0, 0.0, G], gaps=np.full(2, gap))


def test_a_step_without_a_solution_still_holds():
    """Walls closer than the block is wide: it cannot leave both. The contacts press and hold its weight all the same."""
    solution = PolygonLcp().solve(between_walls(-1e-4))
    assert solution.status is Status.NOT_CERTIFIED
    assert solution.contact == pytest.approx(PolygonLcp().recovery)
    assert (solution.p[:, 2] > G * DT).all()
    assert np.abs(solution.v_plus).max() < 1e-2 * G * DT
    free = PolygonLcp().solve(between_walls(0.0))
    assert free.status is Status.SOLVED
    assert free.v_plus[2] == pytest.approx(-G * DT)


@pytest.mark.parametrize("masses", first_is_fast([[100.0, 1.0], [1.0, 100.0], [150.0, 1.5]], 0))
def test_hinged_boxes_collide_as_under_newton(masses):
    ends, boxes, shape = [], [], Shape(box=(0.16, 0.12, 0.5))
    for name, x, mass, start in (("raised", -0.09, masses[0], 0.9), ("hanging", 0.09, masses[1], 0.0)):
        hinge = JointSettings(kind="hinge", axis=(0.0, 1.0, 0.0), anchor=(x, 0.0, 0.0), start=start)
        boxes.append(BodySettings(name=name, shape=shape, mass=mass, position=(x, 0.0, -0.25), joint=(hinge,)))
    for engine in ("lcp", "newton"):
        statuses, _, end, _ = followed(scene(*boxes), engine, 2000)
        assert set(statuses) == {Status.SOLVED}
        ends.append(end)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
