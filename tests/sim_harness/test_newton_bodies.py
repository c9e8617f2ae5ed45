"""The engine `newton`: rods, springs and redundant contacts, and its iteration, against reference values."""

import msgspec
import numpy as np
import pytest
from fast import every, fast, full
from newton_problems import STACK, STACKED, G, H, box, followed, paper, particle, problem, stack
from newton_rods import pendulum, rope, weight_on_a_spring

from sim_harness.engines.newton import Newton, geometric_stiffness
from sim_harness.engines.newton_iteration import conjugate_gradients, conjugate_residuals


@full
@pytest.mark.parametrize("engine", [Newton(), paper(max_iterations=100)])
def test_rods_do_not_drift(engine):
    """A pendulum of 1 m for 10⁴ steps of 10 ms, a thousand with the paper's scheme: the rod is right to 10⁻⁹ m throughout."""
    body, worst = pendulum(), 0.0
    for _ in range(10_000 if engine.rules.exact else 1000):
        assert body.step(engine, 0.01).status.ok
        worst = max(worst, abs(np.linalg.norm(body.x) - 1.0))
    assert worst < 1e-9


@pytest.mark.parametrize("stiffness", fast([1e2, 1e3, 1e4, 1e6, 1e8, 1e10, 1e12, np.inf], 1e4, np.inf))
def test_springs_of_any_stiffness_have_the_static_length(stiffness):
    """2 kg on a spring of 10² … 10¹² N/m and on a rod: m g / k longer, to rounding of what is 1 m long."""
    body = weight_on_a_spring(2.0, 1 / stiffness, dissipation=25 / stiffness if stiffness < 1e4 else 0.0)
    for _ in range(400):
        solution = body.step(Newton(), H)
        assert solution.status.ok
    assert -body.x[0, 2] - 1.0 == pytest.approx(2.0 * G / stiffness, rel=1e-5, abs=4e-16)
    assert solution.rows[0] / H == pytest.approx(-2.0 * G, rel=1e-3)


@every(
    ("function", "solver", "regularisation"),
    [
        ("fischer-burmeister", "dense", 1e-6),
        ("fischer-burmeister", "pcr", 0.0),
        ("fischer-burmeister", "pcg", 0.0),
        ("minimum-map", "dense", 1e-6),
        ("minimum-map", "pcr", 0.0),
        ("fischer-burmeister", "dense", 0.0),
    ],
)
def test_redundant_contacts_share_the_load_evenly(function, solver, regularisation):
    """10 kg on four corners 1 m apart, pushed with 20 N at a height of 0.2 m: 22.525 N at the rear ones, 26.525 N in front. A
    prototype found uneven forces with the minimum map and PCR, with Fischer–Burmeister without ε, and lost weight with PCG;
    here all these give the even ones: that was rounding in redundant directions, which depends on the order of sums."""
    engine = paper(function=function, solver=solver, regularisation=regularisation)
    root, _, _, _ = followed(engine, box(force=(20.0, 0, 0)))
    normal = root.p[2::3] / H
    assert normal.sum() == pytest.approx(98.1, rel=1e-4)
    np.testing.assert_allclose(normal, [22.525, 22.525, 26.525, 26.525], atol=2e-3)


def test_a_singular_system_is_reported():
    """The minimum map without ε, solved directly, has a singular matrix and no answer."""
    solution = paper(function="minimum-map").solve(box(force=(20.0, 0, 0)))
    assert not solution.status.ok
    assert np.isfinite(solution.v_plus).all()
    assert Newton().solve(box(force=(20.0, 0, 0))).status.ok


PRECONDITIONERS = {"unit": np.ones(5), "time-step": np.full(5, H**2), "effective-mass": None}
"""r of `literal_stack`"""


def test_preconditioners_follow_the_literal_scheme_and_rank_as_published():
    """The stack, rows divided by α, t = 0.75, after 6 iterations from twenty starts with gaps of 10⁻¹² m: the forces are those
    of the scheme in numpy, and the median errors of the three preconditioners rank as published. The published errors, 0.6 to
    1, 0.21 to 0.31 and 0.12 to 0.20, are from gaps of 0: there a = p = 0 is the singular point of the function, its slope
    follows the sign of rounding, and any order of sums gives others."""
    rng = np.random.default_rng(14)
    starts = [1e-12 * rng.uniform(0.1, 1.0, 5) * rng.choice([-1.0, 1.0], 5) for _ in range(20)]
    medians = []
    for preconditioner, r in PRECONDITIONERS.items():
        engine = paper(preconditioner=preconditioner, form="divided", regularisation=0.0, tolerance=1e-18)
        errors = []
        for gaps in starts:
            found = followed(engine, msgspec.structs.replace(stack(), gaps=gaps), limit=6)[1][2::3] / H
            np.testing.assert_allclose(found, literal_stack(r, 0.0, 6, False, gaps), rtol=1e-6, atol=1e-9)
            errors.append(stacked_error(found))
        medians.append(np.median(errors))
        assert stacked_error(followed(engine, stack(), limit=100)[1] / H) < 1e-14
    assert medians[0] > 2 * medians[1] > 4 * medians[2]


def test_the_remaining_error_is_cancellation():
    """After 100 iterations the reference has 2·10⁻⁸ to 10⁻⁷, 10⁻¹² to 6·10⁻¹² and 2·10⁻¹³. Its scheme in numpy has the same at
    any ε, as φ = a + r λ − √(a² + r² λ²) loses the last digits of r λ. Written as a quotient, as here, it leaves 10⁻¹⁵ with all
    r."""
    for r, low, high in ((np.ones(5), 1e-9, 1e-6), (np.full(5, H**2), 1e-13, 1e-10), (None, 1e-14, 1e-12)):
        for regularisation in (0.0, 1e-6):
            assert low < stacked_error(literal_stack(r, regularisation, 100, weighted=True)) < high


def stacked_error(forces):
    """forces: of all rows, or of normals [N]"""
    return np.abs(forces[2::3] / STACKED - 1).max() if len(forces) == 15 else np.abs(forces / STACKED - 1).max()


def literal_stack(r, regularisation, iterations, weighted, gaps=0.0):
    """Normal forces of the stack [N], in positions and forces. r: None for h² w; ε is absolute; weighted: rows and forces
    multiplied by α, otherwise rows divided by it; gaps [m]"""
    M, fall = np.diag(STACK), np.eye(5) - np.eye(5, k=-1)
    u, force = np.zeros(5), np.zeros(5)
    r = H**2 * np.diag(fall @ np.linalg.inv(M) @ fall.T) if r is None else r
    for _ in range(iterations):
        a, b = gaps + H * fall @ u, r * force
        s = np.hypot(a, b)
        alpha, beta = 1 - a / np.maximum(s, 1e-300), r * (1 - b / np.maximum(s, 1e-300))
        alpha = np.maximum(np.where(s > 0, alpha, 0.0), 0.0 if weighted else 1e-8)
        J, by = (alpha[:, None] * fall, 1.0) if weighted else (fall, alpha)
        g = M @ (u + G * H) - H * J.T @ force
        A = J @ np.linalg.solve(M, J.T) + np.diag(beta / by) / H**2 + regularisation * np.eye(5)
        change = np.linalg.solve(A, J @ np.linalg.solve(M, g) - (a + b - s) / by / H) / H
        u = u + 0.75 * np.linalg.solve(M, H * J.T @ change - g)
        force = force + 0.75 * change
    return force


def residuals(solve, A, b):
    """‖D^-½ (b − A x)‖ after 0, 1, …, 40 iterations."""
    out = []
    for k in range(41):
        r = b - A @ solve(A.copy(), b, k)
        out.append(np.sqrt(np.sum(r * r / np.diag(A))))
    return np.array(out)


def test_residuals_of_pcr_never_grow():
    """Matrices 40 × 40 of rank 25: in 0 of 20 systems with PCR, in some of them with PCG (the reference: 7, here 11)."""
    rng = np.random.default_rng(15)
    grew = {conjugate_residuals: 0, conjugate_gradients: 0}
    for _ in range(20):
        B = rng.normal(size=(40, 25))
        A = B @ B.T
        b = A @ rng.normal(size=40)
        for solve in grew:
            norms = residuals(solve, A, b)
            grew[solve] += bool((norms[1:] > norms[:-1] * (1 + 1e-9) + 1e-13 * norms[0]).any())
    assert grew[conjugate_residuals] == 0
    assert grew[conjugate_gradients] >= 5


def test_a_damped_iteration_leaves_a_quarter_of_the_error():
    """t = 0.75 and the minimum map leave 0.25 each, once nothing switches; Fischer–Burmeister about 0.3. The reference values
    0.75, 0.19, 0.047 and 0.012 are what each iteration adds, of the weight and, one later, of friction."""
    step = particle(v=(1.0, 0.5, 0.0))
    root, _, _, _ = followed(paper(function="minimum-map"), step)
    np.testing.assert_allclose(root.history[1:10] / root.history[:9], 0.25, rtol=1e-6)
    iterates = [followed(paper(function="minimum-map"), step, limit=k)[1] / H for k in range(1, 6)]
    normal, friction = np.diff([0.0, *(p[2] for p in iterates)]), np.diff([np.hypot(*p[:2]) for p in iterates])
    for added in (normal[:4] / G, friction / (0.5 * G)):
        np.testing.assert_allclose(added, [0.75, 0.19, 0.047, 0.012], rtol=0.03)
        np.testing.assert_allclose(added, 0.75 * 0.25 ** np.arange(4), rtol=1e-9)
    root, _, _, _ = followed(paper(tolerance=1e-12), step)
    np.testing.assert_allclose(root.history[12:20] / root.history[11:19], 0.28, atol=0.03)
    root, _, _, _ = followed(Newton(), step)
    assert root.iterations <= 6  # exact steps square what is left


@every(("name", "step"), [("stack", stack()), ("box", box(force=(20.0, 0, 0))), ("slide", particle(v=(1, 0.5, 0)))])
def test_regularisation_does_not_bias_the_motion(name, step):
    """ε = 0, 10⁻⁶ and 10⁻³: the same motion. Of the stack, whose masses are 4096 : 1, 10⁻³ slows the last digits."""
    found = {}
    for regularisation in (0.0, 1e-6, 1e-3):
        engine = paper(regularisation=regularisation, solver="pcr" if regularisation == 0 else "dense", tolerance=1e-11)
        root, _, c, found[regularisation] = followed(engine, step)
        assert root.error <= 1e-11 * c.scale
    for v in found.values():
        np.testing.assert_allclose(v, found[0.0], atol=1e-11)


def test_forces_end_at_the_error_floor_of_double_precision():
    """(91), (92): forces of the stack and of the box end within ten times ‖x*‖ δ and ‖A‖ ‖x*‖ δ, δ = 2.2·10⁻¹⁶."""
    delta = np.finfo(float).eps
    for step in (stack(), box(force=(20.0, 0, 0))):
        root, _, c, _ = followed(Newton(), step)
        A = np.abs(c.D).sum(axis=1).max()
        assert root.error <= 10 * A * np.abs(root.p).max() * delta
    root, _, c, _ = followed(Newton(), stack())
    inverse = np.abs(np.linalg.inv(c.D[2::3, 2::3])).sum(axis=1).max()
    exact = STACKED * H
    forward = inverse * delta * c.scale + exact.max() * delta
    assert np.abs(root.p[2::3] - exact).max() <= 10 * forward


def test_a_tight_rod_has_the_closed_form_geometric_stiffness():
    """1 kg on a rod of 1 m under 50 N, h = 1/120 s: c = h² λ/L = −3.472·10⁻³ kg; with (73)'s printed sign it is −2.003."""
    rod = pendulum(angle=0.0)
    change = np.array([1e-3 / H, 0, 0])
    J, J_there = (rod.rows(shift).G for shift in (np.zeros(3), H * change))
    c = -geometric_stiffness(J, J_there, np.array([-50.0 * H]), change, np.zeros(3))
    assert c[0] == pytest.approx(-3.472e-3, abs=1e-6)
    assert c[1] == c[2] == 0.0
    inertia = rod.terms(None, None)[0] @ change
    residual = inertia - (J_there - J).T @ np.array([-50.0 * H])  # what g(u) changes by
    assert (-(residual - inertia) / H)[0] / (change[0] / H) == pytest.approx(c[0], rel=1e-12)
    assert -(residual + inertia)[0] / change[0] == pytest.approx(-2.003, abs=5e-4)


@full
@pytest.mark.parametrize(("pull", "compliance"), [(0.1, 1e-3), (1.0, 1e-2)])
def test_a_tight_rope_needs_geometric_stiffness(pull, compliance):
    """Ten particles of 10 g between springs stretched by a tenth or to twice their length, steps of 10 ms. Without it no step
    is solved; with it all are, and the rope hangs as strings do, T z'' = m g. The rope stands for a sheet: elastic elements
    here have nine rows each for how their forces turn, and converge without it."""
    body = rope(compliance=compliance, pull=pull)
    assert not body.step(Newton(), 0.01).status.ok
    body = rope(compliance=compliance, pull=pull)
    body.links = [(*link[:4], 0.02) for link in body.links]
    for _ in range(400):
        assert body.step(Newton(geometric_stiffness=True), 0.01).status.ok
    tension, along = pull / compliance, 1 + pull
    places = np.arange(1, 11)
    sag = 0.01 * G * along / (2 * tension) * places * (11 - places)
    np.testing.assert_allclose(-body.x[:, 2], sag, rtol=0.02)


def sinking(stiffness, damping, dt, seconds, engine=None):
    """10 kg put on ground that yields: how deep it is after each step [m], each of at most 6 iterations."""
    z, v, out = 0.0, np.zeros(3), []
    contact = {"stiffness": np.array([stiffness]), "dissipation": np.array([damping / stiffness])}
    for _ in range(round(seconds / dt)):
        solution = (engine or Newton()).solve(particle(mass=10.0, v=v, gaps=[z], dt=dt, **contact))
        assert solution.status.ok
        assert solution.iterations <= 6
        v = solution.v_plus
        z += dt * v[2]
        out.append(-z)
    return np.array(out)


@full
def test_compliant_contacts_settle_at_weight_over_stiffness():
    """10 kg on k = 5·10⁴ N/m with b = 200 N·s/m: m g/k = 1.962 mm. Critically damped it approaches that as the equation
    m z̈ + b ż + k z = m g says, to first order in the step."""
    sag = 10.0 * G / 5e4
    assert sag == pytest.approx(1.962e-3)
    for engine in (Newton(), paper(form="divided", damping=1.0)):
        assert sinking(5e4, 200.0, 1e-3, 3.0, engine)[-1] == pytest.approx(sag, rel=1e-8)
    omega, errors = np.sqrt(5e4 / 10.0), []
    for dt in (1e-3, 5e-4, 2.5e-4):
        t = dt * np.arange(1, round(0.1 / dt) + 1)
        exact = sag * (1 - np.exp(-omega * t) * (1 + omega * t))
        errors.append(np.abs(sinking(5e4, 2 * 10.0 * omega, dt, 0.1) - exact).max() / sag)
    assert errors[-1] < 0.01
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1.0, atol=0.15)


def test_compliant_contacts_damp_only_after_touching():
    """Above the ground no force brakes the fall at any speed."""
    falling = particle(v=(0, 0, -1.0), gaps=[1e-3], dt=5e-4, stiffness=np.array([5e4]), dissipation=np.array([0.1]))
    assert Newton().solve(falling).p[0, 2] == 0.0
    assert problem(np.eye(3), np.eye(3), 0.5).stiffness is None
