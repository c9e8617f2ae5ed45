"""Elastic blocks, compliant stops and closures, and rotating forces."""

import msgspec
import numpy as np
import pytest
from fast import full
from scipy.optimize import minimize

from controllers.config.loading import parse
from idyn.errors import ConfigError
from sim_harness.scenes.load import engine_named, load_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.scenes.scene import elastic_of, grid_of, particles_of, where_now
from sim_harness.scenes.scene_settings import ForceSettings
from sim_harness.world.worlds import AnyEngine, build_scene

STRIP = load_scene("elastic-strip")
(BLOCK,) = STRIP.elastic


def test_a_block_is_filled_with_tetrahedra_and_its_particles_have_its_mass():
    points, nodes = grid_of(BLOCK)
    assert len(points) == 7 * 2 * 2
    assert len(nodes) == 6 * 6
    size = np.prod(BLOCK.size)
    assert elastic_of(BLOCK).volumes.sum() == pytest.approx(size, rel=1e-12)
    assert sum(particle.mass for particle in particles_of(BLOCK)) == pytest.approx(BLOCK.density * size, rel=1e-12)
    assert sum(particle.joint == "fixed" for particle in particles_of(BLOCK)) == 4


def potential(block, x):
    """Energy of the tetrahedra and of heights [J] at x (n, 3), by invariants of F alone."""
    points, nodes = grid_of(block)
    rest, now = ((y[nodes[:, 1:]] - y[nodes[:, :1]]).transpose(0, 2, 1) for y in (points, x))
    F, volumes = now @ np.linalg.inv(rest), np.abs(np.linalg.det(rest)) / 6
    mu = block.young / (2 * (1 + block.poisson))
    lam = 2 * mu * block.poisson / (1 - 2 * block.poisson)
    squares, J, stretch = (F * F).sum(axis=(1, 2)), np.linalg.det(F), np.linalg.norm(F, "nuc", axis=(1, 2))
    if block.energy == "neo-hookean":
        bulk = (lam + mu) / 2
        density = mu / 2 * (squares - 3) + bulk * (J - 1 - mu / (2 * bulk)) ** 2
    else:
        density = mu * (squares - 2 * stretch + 3) + lam / 2 * (stretch - 3) ** 2
    masses = np.zeros(len(points))
    np.add.at(masses, nodes, (block.density * volumes / 4)[:, None])
    return volumes @ density + 9.81 * masses @ x[:, 2]


@pytest.mark.parametrize(
    "energy", [pytest.param("neo-hookean", marks=pytest.mark.long), pytest.param("corotational", marks=full)]
)
def test_a_hanging_strip_minimises_elastic_and_gravitational_energy(energy):
    """Ten times softer than the shipped one, so that its tip sinks by a ninth of its length: a large displacement."""
    block = msgspec.structs.replace(BLOCK, energy=energy, young=1e5, dissipation=0.1)
    scene = msgspec.structs.replace(STRIP, elastic=(block,), duration=4.0)
    world = build_scene(scene, engine_named(scene, "lcp"))
    for _ in range(round(scene.duration / scene.dt)):
        assert world.step().solution.status.ok
    centres = world.bodies.place(world.state.q)[1]
    points, _ = grid_of(block)
    free = np.flatnonzero(points[:, 0] > 0.0)

    def at(y):
        x = points.copy()
        x[free] = y.reshape(-1, 3)
        return potential(block, x)

    limits = {"ftol": 0, "gtol": 1e-9, "maxiter": 5000, "maxfun": 10**6}
    found = minimize(at, points[free].ravel(), method="L-BFGS-B", jac="3-point", options=limits)
    off, sag = np.abs(found.x - centres[free].ravel()).max(), points[-1, 2] - centres[-1, 2]
    print(f"{energy}: tip sinks by {1e3 * sag:.3f} mm; scipy's minimum is {off:.1e} m away")
    assert off < 1e-5
    assert at(centres[free].ravel()) <= found.fun + 1e-12
    assert 0.03 < sag < 0.04


def test_mujoco_refuses_unsupported_parts():
    pytest.importorskip("mujoco")
    from sim_harness.world.worlds import build_scene  # noqa: PLC0415

    for name, field in (
        ("elastic-strip", "elastic"),
        ("pendulum-soft-stop", "stiffness"),
        ("arch", "hull"),
        ("elastic-foundation", "cells"),
    ):
        scene = load_scene(name)
        with pytest.raises(ConfigError, match=field):
            build_scene(msgspec.structs.replace(scene, dt=1e-3), parse("mujoco", AnyEngine, "engine"))


def test_a_rotating_force_follows_the_axis_of_its_body():
    force = ForceSettings(body="a", force=(0.0, 0.0, -1.0), at=(0.5, 0.0, 0.2), orbit=10.0)
    np.testing.assert_allclose(where_now(force, np.pi / 20), [0.0, 0.5, 0.2], atol=1e-12)


@full
@pytest.mark.parametrize("engine", ["lcp", "sap", "first-order"])
def test_a_closure_that_yields_is_a_spring(engine, tmp_path):
    """A ball on a pin of 500 N/m: it hangs lower by m g / k."""
    path = tmp_path / "pin.toml"
    path.write_text(
        'about = "a ball on a soft pin"\nengines = ["lcp"]\ndt = 0.001\nduration = 2.0\n'
        '[[body]]\nname = "ball"\nshape = { sphere = 0.05 }\nmass = 1.0\n'
        '[[closure]]\nkind = "pin"\nbodies = ["ball", ""]\nat = [0, 0, 0]\nstiffness = 500.0\ndissipation = 0.05\n'
    )
    scene = load_scene(str(path))
    run = run_scene(scene, engine_named(scene, engine))
    assert run.ok.all()
    assert run.centres[-1, 0] == pytest.approx([0.0, 0.0, -9.81 / 500.0], abs=1e-9)
