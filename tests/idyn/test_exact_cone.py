"""The law with the round cone: its conditions over random states, isotropy, a convex program solved by SCS, and polygons."""

import numpy as np
import pinocchio as pin
import pytest
import scs
from conditions import allowance, dynamics, exact_cone_error
from fast import every, fast
from oracles import eliminate, full
from scenes import (
    DT,
    LITERAL,
    PLAIN,
    VARIANTS,
    each_walker,
    limitless,
    predict_scene,
    random_scene,
    random_scenes,
    reduced,
    standing_scene,
    turned,
    varied,
)
from scipy.sparse import csc_matrix

from idyn import Options, State, make_law, predict
from idyn.laws.convex_program import facets, turn
from idyn.laws.exact_cone import face_of, solve_exact_cone
from idyn.solvers.linalg import RANK
from idyn.solvers.qp import METHODS, solve_cones
from idyn.status import SOLVED


def solve(scene, law="exact-cone", options=PLAIN, guess=None, **changes):
    return predict_scene(scene, law, options, guess, **changes)


@every("variant", VARIANTS)
@each_walker
def test_exact_cone_satisfies_its_conditions(name, variant):
    """It answers itself in every state of finite friction; with infinite friction in nearly all."""
    own, count = 0, 40
    for scene in varied(name, VARIANTS[variant], count):
        answer = solve(scene)
        own += answer.law == "exact-cone" and answer.status.ok
        if answer.law != "exact-cone":
            assert not answer.status.ok
            continue
        f = full(scene.robot, scene.state, scene.contacts)
        extra, size = allowance(scene.contacts.gaps, DT), max(1.0, np.abs(answer.p).max(initial=0))
        assert exact_cone_error(f, answer.p, answer.v_plus, scene.contacts.mu, extra) <= 1e-8 * size
        assert dynamics(f, answer.p, answer.v_plus, answer.tau, DT) <= 1e-9 * size
    assert own >= (count if "un" not in variant and variant != "all kinds" else 0.7 * count)


@every("angle", [0.3, np.pi / 4, 2.0])
@each_walker
def test_the_answer_is_isotropic(name, angle):
    """Turning the tangents keeps v⁺ and the forces in the world. Started at the same impulses, as polygons are not isotropic
    and the law may have several answers."""
    slid = 0
    for scene in random_scenes(name, 30, mu=0.3):
        begun = solve(scene).guess
        one, other = solve(scene, guess=begun), solve(scene, guess=begun, contacts=turned(scene.contacts, angle))
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
    answer = solve(scene, robot=limitless("quadruped"), state=State(q=scene.state.q, v=v))
    friction = answer.force.sum(axis=0)[:2]
    np.testing.assert_allclose(friction, -0.5 * answer.normal_force.sum() * v[:2] / 0.5, rtol=1e-8, atol=1e-8)


def least_of_program(f, scene, extra, s):
    """Of ½ pᵀ D p + pᵀ (b + s e_N) over the round cones, with SCS: D p (3n)."""
    D, b, _, _ = eliminate(f, scene.q_ddot, DT)
    b[2::3] += extra + s
    values, vectors = np.linalg.eigh((D + D.T) / 2)
    keep = values > RANK * values.max()
    root = np.sqrt(values[keep])[:, None] * vectors[:, keep].T  # D = rootᵀ root
    n, r = len(s), int(keep.sum())  # variables p (3n) and x = root p (r): min ½ xᵀx + bᵀp
    cones = np.zeros((3 * n, 3 * n))
    for i in range(n):
        cones[3 * i, 3 * i + 2], cones[3 * i + 1, 3 * i], cones[3 * i + 2, 3 * i + 1] = -scene.contacts.mu[i], -1, -1
    A = np.block([[root, -np.eye(r)], [cones, np.zeros((3 * n, r))]])
    P = np.zeros((3 * n + r, 3 * n + r))
    P[3 * n :, 3 * n :] = np.eye(r)
    data = {"P": csc_matrix(P), "A": csc_matrix(A), "b": np.zeros(len(A)), "c": np.r_[b, np.zeros(r)]}
    found = scs.solve(data, {"z": r, "q": [3] * n}, eps_abs=1e-11, eps_rel=1e-11, max_iters=200_000, verbose=False)
    assert found["info"]["status"] == "solved"
    return root.T @ found["x"][3 * n :]  # D p


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
        D, _, _, _ = eliminate(f, scene.q_ddot, DT)
        ours, theirs = D @ answer.p, least_of_program(f, scene, extra, s)
        np.testing.assert_allclose(ours, theirs, atol=2e-6 * max(1.0, np.abs(ours).max()))
    assert slid >= 4


@each_walker
def test_polygons_converge_to_the_round_cone(name):
    """With more edges Coulomb's law comes nearer, but only with 1/k where feet slide, as its friction points to a corner."""
    errors = []
    for scene in random_scenes(name, 24, mu=0.3, n=4, touching=1.0):
        exact = solve(scene)
        f = full(scene.robot, scene.state, scene.contacts)
        u = f.at_end(exact.v_plus).reshape(-1, 3)
        if not (np.hypot(u[:, 0], u[:, 1])[exact.p[2::3] > 1e-9] > 1e-6).any():
            continue
        polygons = [predict_scene(scene, make_law("coulomb", edges=k)) for k in (4, 16, 64)]
        errors.append([np.abs(answer.v_plus - exact.v_plus).max() for answer in polygons])
    assert len(errors) >= 8
    mean = np.median(errors, axis=0)
    assert mean[1] < 0.6 * mean[0]
    assert mean[2] < 0.4 * mean[1]


@every("method", METHODS)
def test_contact_velocities_match_pinocchios_solvers(method):
    same = 0
    for scene in random_scenes("quadruped", 30, mu=0.5):
        r, _ = reduced(scene)
        D, mean, speed = r.Y @ r.Y.T, np.mean(np.sum(r.Y[2::3] ** 2, axis=1)), np.abs(r.b).max()
        theirs = speed / mean * solve_cones(D / mean, r.b / speed, r.mu, method)
        p, _, _, status, _ = solve_exact_cone(r.Y, r.b, r.mu, theirs)
        assert status == SOLVED
        same += bool(np.abs(D @ (p - theirs)).max() <= 1e-5 * speed)
    assert same >= 24


def test_a_warm_start_takes_few_steps():
    """The next tick of a stance takes one or two steps; without a warm start it begins anew."""
    scene = standing_scene("quadruped", mu=0.6)
    first = solve(scene, options=Options.paper(ground=LITERAL))
    warm = solve(scene, options=Options.paper(ground=LITERAL), guess=first.guess)
    cold = solve(scene, options=Options.paper(ground=LITERAL, warm_start=False), guess=first.guess)
    assert (first.rung, warm.rung, cold.rung) == ("from 4 edges", "warm", "from 4 edges")
    assert warm.iterations <= 3
    np.testing.assert_allclose(warm.tau, first.tau, atol=1e-7)


def test_the_face_tells_sticking_sliding_and_separating_contacts():
    Y = np.eye(9)[:, :9]
    mu, p = np.full(3, 0.5), np.array([0.1, 0, 1, 0.3, 0.4, 1, 0, 0, 0])
    b = -p + np.array([0, 0, 0, -0.03, -0.04, 0, 0, 0, 0.2])
    flags, friction = face_of(Y, b, mu, p)
    assert flags.tolist() == [[True, False, True], [True, True, False], [False, False, False]]
    np.testing.assert_allclose(friction, [[1, 0], [0.6, 0.8], [0, 0]])


@every("seed", range(8))
def test_the_polygon_of_the_selection_contains_the_laws_friction(seed):
    """For a contact that sticks at the edge of its round cone, the inner polygon is turned so that a corner is there."""
    rng = np.random.default_rng(seed)
    directions, mu, angle = make_law("exact-cone").directions, 0.7, rng.uniform(0, 2 * np.pi)
    along = np.array([np.cos(angle), np.sin(angle)])
    turned_polygon, facet = np.empty_like(directions), np.zeros((len(directions), 3))
    turn(directions, along, turned_polygon)
    facets(facet, 0, 0, mu, turned_polygon)
    assert (facet @ np.r_[mu * along, 1.0]).min() >= -1e-12
    assert np.hypot(*turned_polygon.T).max() <= 1 + 1e-12  # and in the round cone


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
        answer = predict(
            scene.robot, scene.state, c, scene.q_ddot, law=make_law("exact-cone"), dt=DT, options=Options.paper(ground=LITERAL)
        )
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
