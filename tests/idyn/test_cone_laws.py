"""Laws with round cones and of sensed forces: conditions over random states, SCS, another solver and known answers."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import scenes
from conditions import allowance, compliant_rows
from cones import least_over_cones
from fast import every, fast
from oracles import eliminate, full, outcome
from scenes import DT, LITERAL, each_walker, predict_scene, random_scene, random_scenes, standing_scene, with_contacts

from idyn import Consistency, Options, State, predict
from idyn.contact.ground import Ground, Material
from idyn.laws import SapSettings, make_law
from idyn.laws.sap import Sap
from idyn.laws.sensed import Sensed


def solve(scene, law="exact-cone", options=scenes.PLAIN, guess=None, **changes):
    return predict_scene(scene, law, options, guess, **changes)


@every("angle", [0.3, np.pi / 4, 2.0])
@each_walker
def test_the_answer_is_isotropic(name, angle):
    """Turning the tangents keeps v⁺ and the forces in the world, from the same impulses: the law may have several answers."""
    slid = 0
    for scene in random_scenes(name, 30, mu=0.3):
        begun = solve(scene).guess
        one, other = solve(scene, guess=begun), solve(scene, guess=begun, contacts=scenes.turned(scene.contacts, angle))
        np.testing.assert_allclose(one.v_plus, other.v_plus, atol=1e-9)
        np.testing.assert_allclose(one.force, other.force, atol=1e-5 * max(1.0, np.abs(one.force).max()))
        u = full(scene.robot, scene.state, scene.contacts).at_end(one.v_plus).reshape(-1, 3)
        slid += bool(np.hypot(u[:, 0], u[:, 1])[one.p[2::3] > 1e-9].max(initial=0) > 1e-6)
    assert slid >= 8


@every("angle", [0.0, 0.1, np.pi / 4, np.pi / 8])
def test_sliding_friction_is_mu_times_the_load_against_the_motion(angle):
    """In any direction: a polygon of four edges lacks up to 29 % of it."""
    scene = standing_scene("quadruped", mu=0.5)
    v = np.zeros(18)
    v[:2] = 0.5 * np.array([np.cos(angle), np.sin(angle)])
    answer = solve(scene, robot=scenes.limitless("quadruped"), state=State(q=scene.state.q, v=v))
    friction = answer.force.sum(axis=0)[:2]
    np.testing.assert_allclose(friction, -0.5 * answer.normal_force.sum() * v[:2] / 0.5, rtol=1e-8, atol=1e-8)


def test_a_warm_start_takes_few_steps():
    """The next tick of a stance takes one or two steps; without a warm start it begins anew."""
    scene = standing_scene("quadruped", mu=0.6)
    first = solve(scene, options=Options.paper(ground=LITERAL))
    warm = solve(scene, options=Options.paper(ground=LITERAL), guess=first.guess)
    cold = solve(scene, options=Options.paper(ground=LITERAL, warm_start=False), guess=first.guess)
    assert (first.rung, warm.rung, cold.rung) == ("from 4 edges", "warm", "from 4 edges")
    assert warm.iterations <= 3
    np.testing.assert_allclose(warm.tau, first.tau, atol=1e-7)


# -- against Pinocchio's ADMM solver -----------------------------------------------------------------------------------


def by_admm(D, b, mu):
    """Impulses of the problem û = D p + b with round cones (3n), and the violation of Coulomb's law that remains [m/s]."""
    scale = np.trace(D) / len(D)  # Pinocchio's tolerances are absolute
    settings, result, solver = pin.ADMMSolverSettings(), pin.ADMMSolverResult(), pin.ADMMConstraintSolver(len(b))
    settings.solve_ncp, settings.max_iterations = True, 20_000
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = 1e-12
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 0.0
    models, datas, nowhere = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData(), pin.SE3.Identity()
    for friction in mu:
        point = pin.PointContactConstraintModel(pin.Model(), 0, nowhere, 0, nowhere)
        point.setFriction(float(friction))
        models.append(pin.ConstraintModel(point))
        datas.append(models[-1].createData())
    solver.solve(pin.DelassusOperatorDense(D / scale), b, models, datas, settings, result)
    p = np.array(result.retrieveConstraintImpulses())
    u, worst = (D / scale) @ p + b, 0.0
    for i, friction in enumerate(mu):
        (x, y, n), (vx, vy, vn) = p[3 * i : 3 * i + 3], u[3 * i : 3 * i + 3]
        most, toward = friction * max(n, 0.0), np.array([x - vx, y - vy])
        nearest = toward * min(1.0, most / max(np.linalg.norm(toward), 1e-300))
        worst = max(worst, abs(min(n, vn)), np.abs(np.array([x, y]) - nearest).max())
    return p / scale, worst


@pytest.mark.parametrize(("name", "seeds"), fast([("solo12", range(20)), ("quadruped", range(200))], "solo12"))
def test_admm_finds_the_predicted_motion(name, seeds):
    checked, slid = 0, 0
    for seed in seeds:
        scene = random_scene(name, seed, mu=0.6, touching=1.0)
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        options = Options.paper(ground=LITERAL)
        answer = predict(scene.robot, scene.state, c, scene.q_ddot, law=make_law("exact-cone"), dt=DT, options=options)
        if answer.law != "exact-cone" or not len(c):
            continue
        force = -f.h
        force[f.a] += answer.tau
        free = f.v + DT * np.linalg.solve(f.M, force)
        b = f.at_end(free)
        b[2::3] += allowance(c.gaps, DT)
        p, violation = by_admm(f.J @ np.linalg.solve(f.M, f.J.T), b, c.mu)
        if violation > 1e-9:
            continue
        v = free + np.linalg.solve(f.M, f.J.T @ p)
        assert np.abs(v - answer.v_plus).max() < 1e-6
        checked += 1
        u = f.at_end(v).reshape(-1, 3)
        slid += bool(((np.hypot(u[:, 0], u[:, 1]) > 1e-3) & (p[2::3] > 1e-6)).any())
    print(f"\n{name}: {checked} of {len(seeds)} states, feet slide in {slid}")
    assert checked > 0.5 * len(seeds)
    assert slid > 0


@each_walker
def test_the_answer_minimises_the_convex_program_of_its_sliding_speeds(name):
    """De Saxcé: with s = μ ‖u_T‖ of the answer for given, p minimises a convex program. SCS finds the same D p."""
    slid = 0
    for scene in random_scenes(name, 16, mu=0.4):
        answer = solve(scene)
        f = full(scene.robot, scene.state, scene.contacts)
        u, extra = f.at_end(answer.v_plus).reshape(-1, 3), allowance(scene.contacts.gaps, DT)
        s = scene.contacts.mu * np.hypot(u[:, 0], u[:, 1])
        slid += bool((s[answer.p[2::3] > 1e-9] > 1e-6).any())
        D, b, _, _ = eliminate(f, scene.q_ddot, DT)
        b[2::3] += extra + s
        ours, theirs = D @ answer.p, D @ least_over_cones((D + D.T) / 2, b, scene.contacts.mu)
        np.testing.assert_allclose(ours, theirs, atol=2e-6 * max(1.0, np.abs(ours).max()))
    assert slid >= 4


PLAINLY = Options.paper(ground=LITERAL)
MATERIALS = {"shipped": Material(1e5, 5e-3), "soft": Material(2e3, 0.05), "rigid": Material(np.inf, DT)}
MATERIALS |= {"bouncing": Material(1e4, 0.0), "near": Material(1e4, 0.02, touching_only=False)}


def solve_by(scene, law, options=PLAINLY, **more):
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, **more)


def sunk(scene, depth):
    return with_contacts(scene, gaps=scene.contacts.gaps - depth)


def dual_optimum(scene, material):
    """Impulses that solve_by the dual program min ½γᵀ(D + R)γ + γᵀ(u₀ − v̂) over round cones [SAP (22)], by SCS (3n)."""
    f = full(scene.robot, scene.state, scene.contacts)
    R, aim, counts = compliant_rows(f, material, scene.contacts.gaps, DT)
    u0 = f.at_end(outcome(f, scene.q_ddot, DT, np.zeros(len(R)))[0])
    D = np.array([f.at_end(outcome(f, scene.q_ddot, DT, e)[0]) - u0 for e in np.eye(len(R))]).T
    mu, kept = np.minimum(scene.contacts.mu, 10.0), np.repeat(counts, 3)
    p = np.zeros(len(R))
    if counts.any():
        p[kept] = least_over_cones((D + np.diag(R))[np.ix_(kept, kept)], (u0 - aim)[kept], mu[counts])
    return p


@every("material", MATERIALS)
@each_walker
def test_impulses_solve_the_dual_program(name, material):
    """For random motions with separating, sticking and sliding contacts."""
    law, pressed = Sap(MATERIALS[material]), 0
    for seed in range(8):
        scene = sunk(random_scene(name, seed), 2e-4)
        answer = solve_by(scene, law)
        assert (answer.law, answer.rung) == ("sap", "newton")
        assert answer.residuals.worst < 1e-10
        wanted = dual_optimum(scene, MATERIALS[material])
        np.testing.assert_allclose(answer.p, wanted, atol=1e-6 * max(np.abs(wanted).max(), 1e-3))
        pressed += bool(wanted.any())
    assert pressed >= 3


@each_walker
def test_a_robot_at_its_static_penetration_stands(name):
    """Feet at m g / (4 k): the weight is carried at rest. Feet at the surface carry less."""
    scene, stiffness = standing_scene(name), 1e5
    law = SapSettings(stiffness=stiffness, sigma=1e-6).build()
    equal = solve_by(scene, make_law("coulomb")).normal_force  # of the rigid law
    gaps = -equal / stiffness
    stands = with_contacts(scene, gaps=gaps)
    answer = solve_by(stands, law)
    assert answer.normal_force.sum() == pytest.approx(scene.robot.weight, rel=1e-3)
    assert np.abs(answer.v_plus).max() < 1e-5
    assert solve_by(scene, law).normal_force.sum() < 0.5 * scene.robot.weight


def test_the_ground_and_consistency_options_do_not_matter():
    """This law has a ground model of its own."""
    scene = sunk(random_scene("quadruped", 3), 1e-4)
    law, rigid = make_law("sap"), Options.paper(ground=LITERAL)
    first = solve_by(scene, law, rigid)
    yields = solve_by(scene, law, Options.paper(ground=Ground.rigid(relaxation=0.02, memory=0.01)), guess=first.guess)
    assert yields.residuals.worst < 1e-8
    np.testing.assert_allclose(yields.p, first.p, atol=1e-12)


@every("consistency", Consistency)
def test_every_demand_is_answered_unchanged(consistency):
    """Feet that are driven into the ground: other laws change the demand or refuse it, springs push back."""
    scene = sunk(standing_scene("quadruped"), 1e-4)
    scene = msgspec.structs.replace(scene, q_ddot=np.random.default_rng(0).normal(scale=300.0, size=scene.robot.na))
    answer = solve_by(scene, make_law("sap"), Options.paper(consistency=consistency, ground=LITERAL))
    assert answer.status.ok
    assert answer.demand_change == 0.0


BAD = [("stiffness", 0.0), ("stiffness", -1.0), ("dissipation", -1e-3), ("dissipation", np.inf)]
BAD += [(field, value) for field in ("beta", "sigma") for value in (0.0, np.inf, np.nan)]


@every(("field", "value"), BAD)
def test_invalid_ground_settings_are_refused_by_name(field, value):
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({"kind": "sap", field: value}, SapSettings)


@every("sigma", [1e-6, 1e-5, 1e-4])
def test_friction_with_little_creep_is_solved_to_rounding(sigma):
    """Newton's method ends where no step makes the gradient smaller, and the certificate judges."""
    law = Sap(Material(1e5, 1e-3, sigma=sigma))
    answers = [solve_by(sunk(random_scene("solo12", seed), 1e-4), law) for seed in range(60)]
    assert {(answer.law, answer.status.name) for answer in answers} == {("sap", "SOLVED")}
    assert max(answer.iterations for answer in answers) < 60


def sensed(scene, law):
    return predict_scene(scene, law)


@each_walker
def test_without_sensed_forces_the_answer_is_contact_free(name):
    for scene in random_scenes(name, 20):
        free = sensed(scene, make_law("contact-free"))
        for law in (make_law("sensed"), Sensed(np.zeros(3 * len(scene.contacts)))):
            answer = sensed(scene, law)
            assert answer.status.ok
            np.testing.assert_array_equal(answer.tau, free.tau)
            np.testing.assert_array_equal(answer.v_plus, free.v_plus)


@every("law", ["coulomb", "no-slip", "convex"])
@each_walker
def test_a_predicted_force_that_is_sensed_gives_the_predicted_torque(name, law):
    for scene in random_scenes(name, 20):
        predicted = sensed(scene, make_law(law))
        if predicted.law != law:
            continue
        answer = sensed(scene, Sensed(predicted.p))
        assert answer.law == "sensed"
        np.testing.assert_allclose(answer.tau, predicted.tau, rtol=0, atol=1e-9)
        np.testing.assert_allclose(answer.impulse, predicted.impulse, rtol=0, atol=1e-15)


def test_sensed_forces_are_certified_by_dynamics_only():
    """Also forces that pull, or act through the ground."""
    scene = random_scene("solo12", 0, n=4)
    answer = sensed(scene, Sensed(np.tile([0.01, 0.0, -0.02], 4)))
    assert answer.status.ok
    assert answer.residuals.dynamics < 1e-12
    assert answer.residuals.cone == answer.residuals.complementarity == 0.0
