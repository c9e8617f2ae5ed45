"""Scenes of the engine `newton`: stack, arch, motors, beam, grasp, scale."""

import msgspec
import numpy as np
import pytest
from fast import every, fast, full

from controllers.config.loading import parse
from sim_harness.scenes.load import engine_named, load_scene
from sim_harness.scenes.measures import outcome_of
from sim_harness.scenes.recording import run_scene
from sim_harness.world.worlds import AnyEngine

G, DT = 9.81, 1 / 120


def run(name, **changes):
    """A shipped scene under newton as the scene has it."""
    settings = msgspec.structs.replace(load_scene(name), **changes)
    recording = run_scene(settings, engine_named(settings, "newton"))
    assert recording.ok.all()
    return settings, recording


def test_a_stack_with_the_heaviest_block_on_top_carries_the_weights():
    """The published stack is of points; here boxes stand on four corners each. Forces from bottom to top, in N."""
    settings, found = run("heavy-stack")
    known = [367364.88, 367286.4, 366658.56, 361635.84, 321454.08]
    forces = [found.force[-1, i:, 2].sum() for i in range(5)]
    np.testing.assert_allclose(forces, known, rtol=1e-6)
    assert [body.mass for body in settings.body] == [8, 64, 512, 4096, 32768]
    assert np.abs(found.centres[-1] - found.centres[0]).max() < 1e-6


@pytest.mark.long
def test_the_keystone_of_an_arch_does_not_drift():
    settings, found = run("arch")
    names = [body.name for body in settings.body]
    assert found.t[-1] == pytest.approx(10.0, abs=DT)
    away = np.abs(found.centres[:, [names.index("block-10"), names.index("block-11")]] - found.centres[0, [10, 11]]).max()
    print(f"keystone's largest way in 10 s: {away:.1e} m; masses {found.masses[1:-1].min():.0f} … {found.masses.max():.0f} kg")
    assert away < 1e-3


@full
def test_with_little_friction_the_arch_falls():
    """The same blocks with μ = 0.05: what keeps it up is friction. The sides slip down and push up the crown."""
    scene = load_scene("arch", 0.5)
    slippery = tuple(msgspec.structs.replace(b, material=msgspec.structs.replace(b.material, mu=0.05)) for b in scene.body)
    scene = msgspec.structs.replace(scene, body=slippery)
    found = run_scene(scene, engine_named(scene, "newton"))
    assert np.abs(found.centres[-1, 10] - found.centres[0, 10]).max() > 5e-3


def test_motors_deviate_by_torque_over_gain_and_are_stable_at_120_hz():
    settings, found = run("servo-arm")
    (upper,), (fore,) = (body.joint for body in settings.body)
    a, b = found.q[-1]
    # torques of gravity about both hinges at these angles; hinges turn about +y, which lowers what points along +x
    pulled = G * 1.0 * 0.2 * np.cos(a + b)
    assert b - fore.rest == pytest.approx(pulled / fore.stiffness, rel=1e-9)
    assert a - upper.rest == pytest.approx((G * (2.0 * 0.2 + 1.0 * 0.4) * np.cos(a) + pulled) / upper.stiffness, rel=1e-9)
    inertia = 1.0 * 0.2**2
    assert fore.stiffness * DT**2 / inertia > 4  # beyond what an explicit spring would bear
    assert np.abs(found.v).max() < 5.0


@full
@pytest.mark.parametrize("name", ["pendulum-stop", "pendulum-soft-stop"])
def test_a_stop_holds_and_never_pulls(name):
    settings, found = run(name)
    joint = settings.body[0].joint[0]
    passed = found.q[:, 0].max() - joint.stop[1]
    held = 1.0 * G * np.cos(found.q[-1, 0]) / joint.stop_stiffness
    assert found.q[-1, 0] - joint.stop[1] == pytest.approx(held, rel=1e-9, abs=1e-9)
    if np.isinf(joint.stop_stiffness):
        assert passed < 1e-9
    free = joint.stop[1] - found.q[:, 0] > (2 * settings.dt + joint.stop_dissipation) * found.v[:, 0]
    energy = found.energy[: np.argmin(free)]
    assert np.ptp(energy) < 0.01 * G  # until it is there nothing acts but gravity


@full
def test_a_beam_of_sixteen_hinges_bends_by_moment_over_stiffness():
    """Small angles are not enough: the sum Σ M_i/k without them is 1.3 % off."""
    settings, found = run("beam-chain")
    links, k, length, weight = 16, 250.0, 0.05, 0.003 * G
    small = 0.0
    for i in range(links):
        arms = [(j - i + 0.5) * length for j in range(i, links)]
        moment = sum(weight * arm for arm in arms) + 5.0 * arms[-1]
        small += moment / k * arms[-1]
    tip = settings.body[-1].name
    (rise,) = outcome_of("beam-chain", "newton", settings, found).measured
    print(f"{tip}: rise {rise.value:.9f} m, known {rise.known:.9f} m, of small angles {-small:.9f} m")
    assert rise.value == pytest.approx(rise.known, rel=1e-9)
    assert rise.value == pytest.approx(-small, rel=0.03)


@pytest.mark.full
@pytest.mark.parametrize(("name", "held"), fast([("grasp-ball", True), ("grasp-ball-slips", False)], "grasp-ball-slips"))
def test_a_ball_of_0_32_kg_is_held_by_4_485_newton(name, held):
    settings, found = run(name)
    needed = 0.32 * G / 0.7
    assert needed == pytest.approx(4.485, abs=1e-3)
    pressed = sum(abs(force.force[0]) for force in settings.force)
    assert (pressed >= needed) is held
    speed = found.velocities[-1, 2, 2]
    assert speed == pytest.approx(0.0 if held else -(G - 0.7 * pressed / 0.32) * settings.duration, abs=1e-9)


@every("share", [0.999, 1.001])
def test_the_ball_is_held_or_dropped_on_either_side_of_the_threshold(share):
    scene = load_scene("grasp-ball", 0.1)
    force = share * 0.32 * G / 0.7 / 2
    forces = tuple(msgspec.structs.replace(f, force=(np.sign(f.force[0]) * force, 0.0, 0.0)) for f in scene.force)
    scene = msgspec.structs.replace(scene, force=forces)
    found = run_scene(scene, parse("newton", AnyEngine, "engine"))
    assert (abs(found.velocities[-1, 2, 2]) < 1e-9) == (share > 1)


@full
def test_a_scale_reads_the_weight():
    settings, found = run("weighing-scale", duration=3.0)
    reading = -settings.body[0].joint[0].stiffness * (found.centres[-1, 0, 2] - found.centres[0, 0, 2])
    assert reading == pytest.approx(2.5 * G, abs=1e-6 * 2.5 * G)
