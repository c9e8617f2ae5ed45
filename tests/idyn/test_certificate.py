"""The certificate against numpy, for correct and spoiled answers; consistency of the demand against an independent QP."""

import msgspec
import numpy as np
import pytest
import scenes
from certificates import LAWS, answer_of, certificate, certified
from conditions import allowance, compliant_rows, coulomb_error, dynamics, relative_dynamics, speed_per_impulse
from cones import nearest_in_cone
from fast import every, fast, first_is_fast
from oracles import convex_program, corners, eliminate, full, outcome, solve_qp
from scenes import DT, LITERAL, each_walker, fingers_scene, random_scene, standing_scene, with_contacts
from scipy.optimize import linprog

from idyn import Consistency, Ground, Options, Residuals, Selection, Status, make_law, predict
from idyn.certificate.certify import CERTIFIED, Claim, Conditions
from idyn.certificate.momentum import demand_error
from idyn.contact.soft import SoftContact, constraints_of
from idyn.prediction.feasible import EPSILON, project
from idyn.prediction.solve import workspace_for
from idyn.terms.dynamics import evaluate

LIGHT = 6.4e-8  # scale of all masses by which 2.5 kg become 0.16 mg
DEMANDED = ("no-slip", "coulomb", "exact-cone", "convex", "convex-infinite", "cone", "cone-infinite")


def shares_of(x, k):
    """x = Σ share_j · corner_j with the least sum (SciPy's LP): the two corners next to it."""
    found = linprog(np.ones(k), A_eq=corners(k).T, b_eq=x, bounds=(0, None), options={"primal_feasibility_tolerance": 1e-10})
    assert found.status == 0
    return found.x


def expected(scene, law, f, a):
    """The six residuals, from the dense system."""
    c, k = scene.contacts, len(law.directions)
    s = speed_per_impulse(f, len(c))
    u, p = f.at_end(a.v_plus).reshape(-1, 3), a.p.reshape(-1, 3) * s[:, None]
    w = u[:, 2] + allowance(c.gaps, DT)
    force = relative_dynamics(f, a.p, a.v_plus, a.tau, DT)
    demand = np.abs(a.v_plus[f.a] - f.v[f.a] - DT * scene.q_ddot).max()
    if law.conditions is Conditions.FREE:
        return Residuals(dynamics=force, demand=demand, complementarity=0, cone=np.abs(p).max(initial=0), penetration=0, slip=0)
    if law.conditions is Conditions.COMPLIANT:
        worst, cone = compliant(f, law.material, c, u, a.p.reshape(-1, 3))
        return Residuals(dynamics=force, demand=demand, complementarity=worst, cone=cone, penetration=0, slip=0)
    penetration, cone, slip = max(-w.min(initial=0), 0), max(-p[:, 2].min(initial=0), 0), 0.0
    pairs = []
    free = np.isinf(c.mu) | (law.unlimited_friction & (c.mu > 0))
    moving, pulling = np.abs(u[:, :2]).max(axis=1, initial=0), np.abs(p[:, :2]).max(axis=1, initial=0)
    apart = (w > 1e-9) & ~p.any(axis=1)
    if law.conditions is not Conditions.CONVEX:
        cone = max(cone, pulling[free & (w > 1e-9) & (p[:, 2] <= 1e-9)].max(initial=0))
    if law.conditions is Conditions.NO_SLIP:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[(c.mu > 0) & ~apart].max(initial=0)
        cone = max(cone, pulling[c.mu == 0].max(initial=0))
    if law.conditions is Conditions.COULOMB:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[free & ~apart].max(initial=0)
        for i in np.flatnonzero(~free):
            shares, along = shares_of(p[i, :2], k), corners(k) @ u[i, :2]
            speed, rest = max(-along.min(), 0), c.mu[i] * p[i, 2] - shares.sum()
            pairs.append(np.r_[min(speed, max(rest, 0)), np.minimum(shares, along + speed)])
            cone = max(cone, -rest)
    if law.conditions is Conditions.EXACT_CONE:
        pairs.append(np.minimum(p[:, 2], w))
        slip = moving[free & ~apart].max(initial=0)
        for i in np.flatnonzero(~free):
            most, x = c.mu[i] * max(p[i, 2], 0), p[i, :2] - u[i, :2]
            pairs.append(p[i, :2] - x * min(1, most / max(np.linalg.norm(x), 1e-300)))
            cone = max(cone, np.linalg.norm(p[i, :2]) - most)
    if law.conditions in (Conditions.CONVEX, Conditions.CONE):
        pairs.append(np.minimum(s * a.y, w))
        qp = convex_program(f, scene.q_ddot, DT, c.mu, allowance(c.gaps, DT), k)
        gradient = qp.V.T @ f.M @ a.v_plus if law.conditions is Conditions.CONVEX else np.column_stack([u[:, :2], w]).ravel()
        slope = (gradient - (f.J[2::3] @ qp.V).T @ a.y + a.epsilon * a.p).reshape(-1, 3)
        for i in range(len(c)):
            if law.conditions is Conditions.CONE and free[i] and apart[i]:
                continue
            if free[i]:
                pairs.append(np.r_[slope[i, :2], min(p[i, 2], slope[i, 2])])
                continue
            shares = shares_of(p[i, :2], k)
            rest = c.mu[i] * p[i, 2] - shares.sum()
            loaded = (shares + max(rest, 0) / k) / c.mu[i] if c.mu[i] > 0 else np.full(k, max(p[i, 2], 0) / k)
            pairs.append(np.minimum(loaded, slope[i, 2] + c.mu[i] * corners(k) @ slope[i, :2]))
            cone = max(cone, -rest)
    worst = np.abs(np.concatenate([np.zeros(1), *pairs])).max()
    return Residuals(dynamics=force, demand=demand, complementarity=worst, cone=cone, penetration=penetration, slip=slip)


def compliant(f, material, c, u, p):
    """How far p is from the point of the round cone nearest to p − (u − v̂ + R p), and from the cone  [SAP (21), (29), (30)]."""
    R, aim, active = compliant_rows(f, material, c.gaps, DT)
    worst, scales = np.zeros(2), speed_per_impulse(f, len(c))
    for i, s in enumerate(scales):
        mu = min(c.mu[i], 10.0)
        outside = s * max(0.0, -p[i, 2], np.linalg.norm(p[i, :2]) - mu * p[i, 2])
        worst = np.maximum(worst, [0.0, outside])
        if not active[i]:
            worst[0] = max(worst[0], s * np.linalg.norm(p[i, :2]), s * abs(p[i, 2]))
            continue
        row = slice(3 * i, 3 * i + 3)
        x = s * p[i] - (u[i] + R[row] * p[i] - aim[row])
        worst[0] = max(worst[0], np.abs(s * p[i] - nearest_in_cone(x, mu)).max())
    return worst


def spoiled(a, rng, f, q_ddot):
    """Answers with one error, and some in which all is wrong."""
    size = rng.choice([1e-6, 1e-3, 1.0])
    p = a.p + size * rng.normal(size=len(a.p)) * (rng.uniform(size=len(a.p)) < 0.5)
    yield msgspec.structs.replace(a, p=p)
    v_plus, tau = outcome(f, q_ddot, DT, p)
    yield msgspec.structs.replace(a, p=p, v_plus=v_plus, tau=tau)
    yield msgspec.structs.replace(a, v_plus=a.v_plus + size * rng.normal(size=len(a.v_plus)))
    yield msgspec.structs.replace(a, tau=a.tau + size * rng.normal(size=len(a.tau)))
    yield msgspec.structs.replace(a, y=a.y + size * rng.normal(size=len(a.y)))


@pytest.mark.parametrize("count", first_is_fast([2, 24]))
@every("law", [law for law in LAWS if make_law(law).conditions is not Conditions.SOFT])
@each_walker
def test_residuals_match_dense_numpy(name, law, count):
    """For correct answers and for errors of any size. The law `mujoco` is held against MuJoCo itself (tests/sim_harness)."""
    law, rng, solved = make_law(law), np.random.default_rng(0), 0
    for seed in range(count):
        scene = random_scene(name, seed)
        if seed % 2:  # frictionless and sticking contacts among them
            mu = rng.choice([0.0, 0.5, np.inf], len(scene.contacts))
            scene = with_contacts(scene, mu=mu)
        f, a = answer_of(scene, law)
        if law.conditions is Conditions.CONE and (not len(a.y) or np.abs(a.p).max(initial=0) > 1e3):
            continue  # unlimited friction against the demand: without solution, or nearly
        solved += 1
        for one in (a, *spoiled(a, rng, f, scene.q_ddot)):
            actual, impulse = certificate(scene, law, one)
            wanted = expected(scene, law, f, one)
            for field in Residuals.__struct_fields__:
                value = getattr(wanted, field)
                assert getattr(actual, field) == pytest.approx(value, rel=1e-6, abs=1e-10), field
            t = np.cross(scene.contacts.normals, scene.contacts.tangents)
            frame = np.stack([scene.contacts.tangents, t, scene.contacts.normals], axis=1)
            np.testing.assert_allclose(impulse, np.einsum("ic,icw->iw", one.p.reshape(-1, 3), frame), atol=1e-12)
    assert solved >= count // 3


# -- tampered answers: the certificate refuses every one ---------------------------------------------------------------


DEPTH = {Conditions.COMPLIANT: 1e-4, Conditions.SOFT: 1e-3}
"""How far the feet have sunk in under laws without rigid contact [m]."""


def loaded(name, law):
    """Four feet standing with a small demand: under all laws there are forces to spoil."""
    scene = standing_scene(name, mu=0.3)
    q_ddot = 0.3 * np.random.default_rng(1).normal(size=12)
    demanded = law not in ("no-slip", "convex-infinite", "cone-infinite")
    scene = msgspec.structs.replace(scene, q_ddot=demanded * q_ddot)
    law = make_law(law)
    if (depth := DEPTH.get(law.conditions)) is not None:  # presses as far as it has sunk in
        scene = with_contacts(scene, gaps=np.full(4, -depth))
    return scene, law, *answer_of(scene, law)


def refused(scene, law, a, **altered):
    return certificate(scene, law, a, **altered)[0].worst > CERTIFIED


def spoil(f, scene, a, change):
    """Impulses changed by `change` (3n), with the matching velocity and torque: only the law is violated."""
    p = a.p + change
    v_plus, tau = outcome(f, scene.q_ddot, DT, p)
    return msgspec.structs.replace(a, p=p, v_plus=v_plus, tau=tau)


@every("law", fast(LAWS, "coulomb", "exact-cone", "sap", "contact-free"))
@each_walker
def test_correct_answers_pass_and_spoiled_ones_are_refused(name, law):
    """An error δ of one torque shows as dt·δ / min(1, M_jj) and is refused where that exceeds 1e-8; a velocity of the base
    that is off by 1 µm/s; impulses off by 1e-6 N·s, alone or with the matching motion."""
    scene, law, f, a = loaded(name, law)
    if law.conditions is not Conditions.FREE:
        assert a.p[2::3].sum() / DT > 20
    assert not refused(scene, law, a)
    for shown, caught in ((1e-9, False), (2e-8, True)):
        for joint in range(12):
            tau, inertia = a.tau.copy(), f.M[f.a[joint], f.a[joint]]
            tau[joint] += shown * min(1.0, inertia) / DT
            wrong = msgspec.structs.replace(a, tau=tau)
            assert certificate(scene, law, wrong)[0].dynamics == pytest.approx(shown, rel=1e-3)
            assert refused(scene, law, wrong) == caught
    for d in range(6):
        assert refused(scene, law, msgspec.structs.replace(a, v_plus=a.v_plus + 1e-6 * np.eye(len(a.v_plus))[d]))
    for change in 1e-6 * np.eye(12):
        assert refused(scene, law, msgspec.structs.replace(a, p=a.p + change))
        residuals, _ = certificate(scene, law, spoil(f, scene, a, change))
        assert residuals.dynamics < 1e-12
        assert residuals.worst > CERTIFIED


@every("cone", ["elliptic", "pyramidal"])
def test_wrong_contact_moments_are_refused(cone):
    """With friction against turning: a moment off by 1e-6 N·m·s, none at all, and another slope of the bias forces."""
    contact = SoftContact(condim=6, spin=0.02, roll=0.01)
    scene, law = standing_scene("quadruped"), make_law("mujoco", cone=cone, integrator="implicit", contact=contact)
    contacts = msgspec.structs.replace(scene.contacts, gaps=np.full(4, -DEPTH[law.conditions]))
    state = msgspec.structs.replace(scene.state, v=0.1 * np.random.default_rng(0).normal(size=scene.robot.nv))
    answer = predict(scene.robot, state, contacts, scene.q_ddot, law=law, dt=DT)
    assert np.abs(answer.moment).max() > 0.01
    problem = workspace_for(scene.robot, 4).problem
    soft = constraints_of(law.soft, scene.robot)
    claim = Claim(law.conditions.value, law.directions, False, np.zeros(0), 0.0, law.material, soft)
    load, moments = problem.load.copy(), problem.moments.copy()

    def worst(load, moments):
        outcome = answer.p, answer.v_plus, answer.tau
        return certified(problem.dynamics.given, scene.q_ddot, claim, *outcome, turning=(load, moments))[0].max()

    assert worst(load, moments) < 1e-10
    for row in range(12):
        assert worst(load, moments + 1e-6 * np.eye(12)[row]) > CERTIFIED
    assert worst(np.zeros(scene.robot.nv), np.zeros(12)) > CERTIFIED
    problem.dynamics.given.own["slope"][:] *= 1.01
    assert worst(load, moments) > CERTIFIED


def light(name, law):
    """Scene and answer of `loaded` for a robot whose masses, and so impulses and torques, are scaled by LIGHT."""
    scene, law, f, a = loaded(name, law)
    f = f._replace(M=LIGHT * f.M, h=LIGHT * f.h)
    scaled = msgspec.structs.replace(a, p=LIGHT * a.p, tau=LIGHT * a.tau, y=LIGHT * a.y, epsilon=a.epsilon / LIGHT)
    return scene, law, f, scaled, {"M": f.M, "h": f.h}


RIGID_LAWS = [law for law in LAWS if make_law(law).conditions not in DEPTH]
"""Laws without a stiffness, whose solutions scale with the masses."""


@every("law", fast(RIGID_LAWS, "no-slip", "convex"))
def test_a_light_robot_is_judged_by_its_own_scale(law):
    """0.16 mg: its honest answer passes; 1e-6 of its impulses too much, in any row, is refused as for the heavy one."""
    scene, law, f, a, altered = light("solo12", law)
    assert not refused(scene, law, a, **altered)
    for change in 1e-6 * LIGHT * np.eye(12):
        assert refused(scene, law, spoil(f, scene, a, change), **altered)
        p = a.p + change
        assert refused(scene, law, msgspec.structs.replace(a, p=p), **altered)
    for joint in range(12):
        tau = a.tau.copy()
        tau[joint] += 1e-6 * LIGHT
        assert refused(scene, law, msgspec.structs.replace(a, tau=tau), **altered)


@pytest.mark.full
@every("law", fast([x for x in LAWS if make_law(x).conditions not in (Conditions.FREE, Conditions.SOFT)], "coulomb", "cone"))
@each_walker
def test_an_answer_without_the_motion_of_the_robot_is_refused(name, law):
    """The law at J v⁺, as in the paper: exact, but of contact velocities that are not those at the end of the period. A
    certificate without a J̇ v of its own would accept it. Wrong radii of what rolls are refused, too."""
    law, found = make_law(law), 0
    for scene in scenes.random_scenes(name, 20, n=3, touching=1.0, mu=0.6):
        _, literal = answer_of(scene, law, Ground.paper())
        _, right = answer_of(scene, law)
        presses = min(literal.p[2::3].max(), right.p[2::3].max()) > 1e-3
        if not presses or np.allclose(literal.p, right.p, rtol=1e-6) or refused(scene, law, right):
            continue  # where no contact closes, convex laws do not know the drift
        found += 1
        assert refused(scene, law, literal)
        assert refused(scene, law, right, radii=scene.contacts.radii + 0.01)
    assert found >= 1


@every("law", ["convex", "convex-one-stage", "convex-infinite", "cone", "cone-one-stage"])
def test_the_convex_law_is_judged_by_its_multipliers(law):
    """With wrong or missing multipliers, or NaN, the same impulses are not proved to be optimal."""
    scene = random_scene("quadruped", 4, n=4, touching=1.0)
    law = make_law(law)
    _, a = answer_of(scene, law)
    assert not refused(scene, law, a)
    for y in (a.y + 1e-6, a.y - 1e-6, np.zeros(0), np.full(4, np.nan)):
        assert refused(scene, law, msgspec.structs.replace(a, y=y))


@every("law", fast(LAWS, "no-slip", "cone", "sap"))
def test_non_finite_answers_and_contacts_are_refused(law):
    scene, made, _, a = loaded("solo12", law)
    for field in ("p", "v_plus", "tau"):
        for i in range(len(getattr(a, field))):
            value = getattr(a, field).copy()
            value[i] = np.nan
            assert refused(scene, made, msgspec.structs.replace(a, **{field: value}))
    for field in ("gaps", "mu") if law in ("no-slip", "coulomb", "convex") else ():
        value = getattr(scene.contacts, field).copy()
        value[1] = np.nan
        assert refused(scene, made, a, **{field: value})


@every("k", range(12))
def test_an_unreported_change_of_the_demand_is_refused(k):
    """The joint velocities of another demand, and a report of a change that was not made."""
    scene, _, _, a = loaded("quadruped", "coulomb")
    given = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL).dynamics.given
    asked, other = scene.q_ddot, scene.q_ddot.copy()
    other[k] += 1e-4

    def error(asked, met, change):
        return demand_error(given, asked, met, change, a.v_plus)

    assert error(asked, asked, 0.0) < 1e-14
    assert error(other, other, 0.0) == pytest.approx(1e-7, rel=1e-3)
    assert error(other, asked, 0.0) == pytest.approx(1e-7, rel=1e-3)
    assert error(other, asked, 1e-7) < 1e-14
    assert error(asked, asked, 1e-7) == pytest.approx(1e-7)


def solve(scene, law, consistency=Consistency.PROJECT, ground=LITERAL):
    options = Options.paper(selection=Selection.OFF, consistency=consistency, ground=ground)
    return scenes.predict_scene(scene, law, options)


def projected(scene, sticking, touching=np.inf, closed=False):
    dynamics = evaluate(scene.robot, scene.state, scene.contacts, dt=DT, ground=LITERAL).dynamics
    return project(dynamics, scene.q_ddot, sticking, touching, closed=closed)


def nearest_velocity(scene, f, held, closed):
    """min ‖v_a − v_des‖² + ε‖v_u − v_u(t)‖²  s.t.  u_N ≥ −φ/dt; held: u_T = 0 and, if closed, u_N = −φ/dt."""
    weight = np.full(len(f.v), np.sqrt(EPSILON))
    weight[f.a] = 1
    target = f.v.copy()
    target[f.a] += DT * scene.q_ddot
    extra = allowance(scene.contacts.gaps, DT)
    equal = np.repeat(held, 3)
    equal[2::3] &= closed
    wanted = np.zeros(len(equal))
    wanted[2::3] = -extra
    above = ~(held & closed)
    J = f.J / weight
    lacking = wanted - f.at_end(target)
    x = solve_qp(np.eye(len(f.v)), np.zeros(len(f.v)), J[2::3][above], lacking[2::3][above], J[equal], lacking[equal])
    return target + x / weight


@pytest.mark.full
@every("closed", [False, True])
@each_walker
def test_the_projection_is_the_nearest_feasible_motion(name, closed):
    for seed in range(60):
        scene = random_scene(name, seed)
        held = np.random.default_rng(seed).uniform(size=len(scene.contacts)) < 0.7
        f = full(scene.robot, scene.state, scene.contacts)
        q_ddot, change, status = projected(scene, held.astype(float), closed=closed)
        assert status is Status.SOLVED
        expected = nearest_velocity(scene, f, held, closed)[f.a]
        np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, expected, atol=1e-9)
        assert change == pytest.approx(DT * np.abs(q_ddot - scene.q_ddot).max(), abs=1e-12)


def test_only_contacts_that_touch_are_held():
    scene = random_scene("solo12", 11, n=4, touching=0.5)
    touch = scene.contacts.gaps <= 1e-4
    assert 0 < touch.sum() < 4
    f = full(scene.robot, scene.state, scene.contacts)
    q_ddot, _, _ = projected(scene, np.ones(4), touching=1e-4)
    np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, nearest_velocity(scene, f, touch, False)[f.a], atol=1e-9)
    q_ddot, _, _ = projected(scene, np.zeros(4))
    np.testing.assert_allclose(f.v[f.a] + DT * q_ddot, nearest_velocity(scene, f, np.zeros(4, bool), False)[f.a], atol=1e-9)


def farkas(f, q_ddot, extra):
    """y ≥ 0 with N_uᵀ y = 0 and yᵀ(b_N + φ/dt) = −1 (MATHEMATICS §4): proof that the demand forces penetration; or None."""
    _, b, _, _ = eliminate(f, q_ddot, DT)
    N_u, r = f.Ju[2::3], b[2::3] + extra
    found = linprog(np.zeros(len(r)), A_eq=np.vstack([N_u.T, r]), b_eq=np.r_[np.zeros(len(f.u)), -1.0], bounds=(0, None))
    return found.x if found.status == 0 else None


@every("law", DEMANDED)
def test_squeezing_fingers_are_an_impossible_demand(law):
    """Proof by certificate; without projection the law fails and reports it, with it the demand is changed."""
    scene = fingers_scene((10.0, -10.0))
    f = full(scene.robot, scene.state, scene.contacts)
    extra = allowance(scene.contacts.gaps, DT)
    y = farkas(f, scene.q_ddot, extra)
    assert y is not None
    assert y.min() > 0
    refused = solve(scene, law, Consistency.OFF)
    assert (refused.rung, refused.law) == ("last forces", "contact-free")
    assert refused.status in (Status.RAY, Status.BACKEND_FAILED)
    assert np.isfinite(refused.tau).all()
    answer = solve(scene, law)
    assert (answer.law, answer.status, answer.demand_change) == (law, Status.SOLVED, pytest.approx(0.01, rel=1e-3))
    q_ddot = (answer.v_plus[f.a] - f.v[f.a]) / DT
    assert farkas(f, q_ddot, extra) is None
    np.testing.assert_allclose(q_ddot, 0, atol=1e-6)  # the middle between opposite demands
    assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) < 1e-12


@every("law", DEMANDED)
@every("demand", [(5.0, 5.0), (-4.0, 9.0), (0.0, 0.0), (3.0, 7.0)])
def test_feasible_finger_demands_are_unchanged(law, demand):
    """Together, apart, and one running away from the other: there is no certificate against them."""
    scene = fingers_scene(demand)
    f = full(scene.robot, scene.state, scene.contacts)
    assert farkas(f, scene.q_ddot, allowance(scene.contacts.gaps, DT)) is None
    answer = solve(scene, law)
    assert (answer.law, answer.status, answer.demand_change) == (law, Status.SOLVED, 0)
    np.testing.assert_allclose(answer.v_plus[f.a], DT * np.array(demand), atol=1e-15)


def test_fingers_carry_the_box_by_friction():
    """Without pressure the box falls; squeezed beforehand (both fingers moving on together) friction may not exceed μ N."""
    scene = fingers_scene((5.0, 5.0))
    answer = solve(scene, "coulomb")
    f = full(scene.robot, scene.state, scene.contacts)
    assert coulomb_error(f, answer.p, answer.v_plus, scene.contacts.mu, np.zeros(2)) < 1e-12
    moved = 0.5 + 2e-3  # box and the rails that go along x with it
    assert answer.p[2] - answer.p[5] == pytest.approx(moved * 5.0 * DT, rel=1e-9)


def test_stick_and_hold_project_demands_that_drag_feet_apart():
    """A demand that spreads standing feet is projected before the first solve, whatever the law, and all feet then stay."""
    scene = standing_scene("solo12")
    q_ddot = 20 * np.random.default_rng(0).normal(size=12)
    scene = msgspec.structs.replace(scene, q_ddot=q_ddot)
    f = full(scene.robot, scene.state, scene.contacts)
    for law in ("no-slip", "coulomb"):
        for consistency in (Consistency.STICK, Consistency.HOLD):
            answer = solve(scene, law, consistency)
            assert answer.status.ok
            assert answer.demand_change > 1e-3
    answer = solve(scene, "no-slip", Consistency.HOLD)
    np.testing.assert_allclose(f.at_end(answer.v_plus), 0, atol=1e-9)
