"""The engine `newton`: scenes with known answers, and beside other engines and solvers."""

import itertools

import msgspec
import numpy as np
import pytest
from fast import every, full
from problems import random_problems
from test_newton_engine import G, H, box, cross, paper, problem

from controllers.config.loading import parse
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.engines.newton import Newton
from sim_harness.scenes.load import engine_named, load_scene
from sim_harness.scenes.recording import run_scene
from sim_harness.world.worlds import AnyEngine


def run_newton(name, **changes):
    """A shipped scene under newton as the scene has it."""
    settings = msgspec.structs.replace(load_scene(name), **changes)
    recording = run_scene(settings, engine_named(settings, "newton"))
    assert recording.ok.all()
    return settings, recording


@full
def test_with_little_friction_the_arch_falls():
    """The same blocks with μ = 0.05: what keeps it up is friction. The sides slip down and push up the crown."""
    scene = load_scene("arch", 0.5)
    slippery = tuple(msgspec.structs.replace(b, material=msgspec.structs.replace(b.material, mu=0.05)) for b in scene.body)
    scene = msgspec.structs.replace(scene, body=slippery)
    found = run_scene(scene, engine_named(scene, "newton"))
    assert np.abs(found.centres[-1, 10] - found.centres[0, 10]).max() > 5e-3


@full
@pytest.mark.parametrize("name", ["pendulum-stop", "pendulum-soft-stop"])
def test_a_stop_holds_and_never_pulls(name):
    settings, found = run_newton(name)
    joint = settings.body[0].joint[0]
    passed = found.q[:, 0].max() - joint.stop[1]
    held = 1.0 * G * np.cos(found.q[-1, 0]) / joint.stop_stiffness
    assert found.q[-1, 0] - joint.stop[1] == pytest.approx(held, rel=1e-9, abs=1e-9)
    if np.isinf(joint.stop_stiffness):
        assert passed < 1e-9
    free = joint.stop[1] - found.q[:, 0] > (2 * settings.dt + joint.stop_dissipation) * found.v[:, 0]
    energy = found.energy[: np.argmin(free)]
    assert np.ptp(energy) < 0.01 * G  # until it is there nothing acts but gravity


@every("share", [0.999, 1.001])
def test_the_ball_is_held_or_dropped_on_either_side_of_the_threshold(share):
    scene = load_scene("grasp-ball", 0.1)
    force = share * 0.32 * G / 0.7 / 2
    forces = tuple(msgspec.structs.replace(f, force=(np.sign(f.force[0]) * force, 0.0, 0.0)) for f in scene.force)
    scene = msgspec.structs.replace(scene, force=forces)
    found = run_scene(scene, parse("newton", AnyEngine, "engine"))
    assert (abs(found.velocities[-1, 2, 2]) < 1e-9) == (share > 1)


MUS = [0.0, 0.2, 1.0, np.inf]


def pile(rng, mu):
    """Three boxes on one another, each on four corners, their masses between 0.1 and 100 kg, pushed and moving."""
    masses, J = 10.0 ** rng.uniform(-1, 2, size=3), []
    for b, x, y in itertools.product(range(3), (-0.5, 0.5), (-0.5, 0.5)):
        rows = np.zeros((3, 18))
        rows[:, 6 * b : 6 * b + 6] = np.hstack([np.eye(3), -cross((x, y, -0.5))])
        if b:
            rows[:, 6 * b - 6 : 6 * b] = -np.hstack([np.eye(3), -cross((x, y, 0.5))])
        J.append(rows)
    weight = np.repeat(G * masses, 6)
    return problem(
        np.diag(np.repeat(masses, 6) * np.tile([1, 1, 1, 1 / 6, 1 / 6, 1 / 6], 3)),
        np.vstack(J),
        mu,
        h=weight * np.tile([0, 0, 1.0, 0, 0, 0], 3),
        v=rng.normal(size=18) * rng.choice([0.0, 0.01, 0.3]),
        force=rng.normal(size=18) * rng.choice([0.0, 0.1, 1.0]) * weight,
    )


def pushed_box(rng, mu):
    """Its weight is at most three times as large as what pushes it, somewhere."""
    given = box(mass=10.0 ** rng.uniform(-1, 2), mu=mu, v=rng.normal(size=6) * rng.choice([0.0, 0.01, 1.0]))
    return msgspec.structs.replace(given, force=rng.normal(size=6) * given.h[2] * rng.choice([0.0, 0.3, 1.0, 3.0]))


def limbs(rng, mu):
    """18 degrees of freedom that four contacts move independently."""
    A = rng.normal(size=(18, 18))
    h, force, v, gaps = 50 * rng.normal(size=18), 20 * rng.normal(size=18), rng.normal(size=18), 1e-3 * rng.normal(size=4)
    return problem(A @ A.T + np.eye(18), rng.normal(size=(12, 18)), mu, h=h, force=force, v=v, gaps=gaps)


def assert_coulomb(given, solution, recovery=0.05):
    """From problem and solution alone: balance, 0 ≤ p_N ⟂ N v⁺ + φ/dt ≥ 0, the cone, and friction of maximal dissipation."""
    a, p, u = given, solution.p, (given.J @ solution.v_plus).reshape(-1, 3)
    scale = max(1.0, np.abs(u).max())
    balance = a.M @ (solution.v_plus - a.v) - a.J.T @ p.ravel() - a.dt * (a.force - a.h)
    size = max(1e-3, np.abs(a.dt * a.h).max(), np.abs(p).max())
    assert np.abs(balance).max() < 1e-9 * size
    away = u[:, 2] + np.maximum(a.gaps / a.dt, -recovery)
    slides, friction = np.hypot(u[:, 0], u[:, 1]), np.hypot(p[:, 0], p[:, 1])
    assert (p[:, 2] >= 0).all()
    assert (away > -1e-7 * scale).all()
    assert (p[:, 2] * away < 1e-6 * size * scale).all()
    endless = np.isinf(a.mu)
    bound = np.zeros(len(a.mu))
    bound[~endless] = a.mu[~endless] * p[~endless, 2]
    assert (friction[~endless] <= bound[~endless] + 1e-9 * size).all()
    lost = (u[:, :2] * p[:, :2]).sum(axis=1) + bound * slides
    assert np.abs(lost[~endless]).max(initial=0.0) < 1e-6 * size * scale
    held = endless & (p[:, 2] > 1e-9 * size)
    assert (slides[held] < 1e-7 * scale).all()
    assert (friction[endless & (p[:, 2] == 0)] == 0).all()


@pytest.mark.full
@pytest.mark.parametrize("mu", [*MUS, None])
@pytest.mark.parametrize("make", [pile, pushed_box, limbs])
def test_random_problems_satisfy_coulombs_law(make, mu):
    """None: another μ at each contact. With μ = ∞ not all have a solution; where it is finite, piles with friction are refused
    now and then, 3 of 900, and nothing else is."""
    rng, solved = np.random.default_rng(10), 0
    for _ in range(60):
        given = make(rng, 0.0 if mu is None else mu)
        if mu is None:
            given = msgspec.structs.replace(given, mu=rng.choice(MUS, size=len(given.mu)))
        solution = Newton().solve(given)
        if solution.status.ok:
            assert_coulomb(given, solution)
            solved += 1
    least = 45 if mu is None or np.isinf(mu) else 58 if make is pile and mu > 0 else 60
    assert solved >= least


def modes_that_hold(given):
    """How many sets of pressing contacts solve a problem with μ = 0 and μ = ∞ alone."""
    a, count = given, 0
    D = a.J @ np.linalg.solve(a.M, a.J.T)
    b = a.J @ (a.v + np.linalg.solve(a.M, a.dt * (a.force - a.h)))
    b[2::3] += np.maximum(a.gaps / a.dt, -0.05)
    for pressing in itertools.product([False, True], repeat=len(a.mu)):
        on = np.repeat(pressing, 3)
        on[0::3] &= np.isinf(a.mu)
        on[1::3] &= np.isinf(a.mu)
        p = np.zeros(len(b))
        p[on] = np.linalg.solve(D[np.ix_(on, on)], -b[on])
        u = D @ p + b
        count += bool((p[2::3] >= -1e-9).all() and (u[2::3] >= -1e-9).all())
    return count


@full
def test_unsolved_problems_have_no_solution():
    """μ = 0 or ∞ at each of four contacts, all modes tried one by one: one of 150 problems has a solution that is not found."""
    rng, refused, missed = np.random.default_rng(12), 0, 0
    for _ in range(150):
        given = limbs(rng, 0.0)
        given = msgspec.structs.replace(given, mu=rng.choice([0.0, np.inf], size=4))
        solved = Newton().solve(given).status.ok
        solvable = modes_that_hold(given) > 0
        assert solvable or not solved
        refused += not solvable
        missed += solvable and not solved
    assert refused > 5
    assert missed <= 1


def slides(solution, mu):
    """Whether friction is at its limit at any contact."""
    p = solution.p
    return bool((np.hypot(p[:, 0], p[:, 1]) > (1 - 1e-9) * mu * p[:, 2]).any() and p[:, 2].any())


def test_polygons_with_more_edges_converge_to_newton():
    """A quadruped whose feet slide: with more edges the engine `lcp` moves it more like `newton`. Medians over 26 problems:
    1.9, 0.7, 0.4, 0.2 % of the fastest velocity with 4, 8, 16, 32 edges."""
    given = [p for p in random_problems("quadruped", 80) if slides(Newton().solve(p), p.mu)]
    assert len(given) > 20
    exact = [Newton().solve(p).v_plus for p in given]
    medians = []
    for edges in (4, 8, 16, 32):
        found = [PolygonLcp(edges=edges).solve(p).v_plus for p in given]
        off = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, exact, strict=True)]
        medians.append(np.median(off))
    assert medians == sorted(medians, reverse=True)
    assert medians[0] > 8 * medians[3]
    assert medians[2] < 0.01


@every("infinite", [False, True])
def test_random_torques_on_a_quadruped_are_solved(infinite):
    """60 sets of random torques from a zero start: the engine solves all, in a median of 3 iterations."""
    for p in random_problems("quadruped", 60, infinite=infinite):
        solution = Newton().solve(p)
        assert solution.status.ok
        assert_coulomb(p, solution)


@every(("dt", "here", "note"), [(1e-3, 19, 21), (H, 20, 23)])
def test_the_published_scheme_needs_the_published_iterations(dt, here, note):
    """From a zero start to 10⁻⁹: medians of 19 and 20 where 21 and 23 are published, as here 10⁻⁹ is a share of the fastest
    row's speed, and distances are speeds. An iteration leaves a quarter or a third: to 10⁻¹¹ it is 22 and 23."""
    given = [msgspec.structs.replace(p, dt=dt) for p in random_problems("quadruped", 60)]
    for tolerance, expected in ((1e-9, here), (1e-11, note)):
        found = [paper(regularisation=1e-6, tolerance=tolerance).solve(p) for p in given]
        assert all(s.status.ok for s in found)
        assert np.median([s.iterations for s in found]) == pytest.approx(expected, abs=1.5)
