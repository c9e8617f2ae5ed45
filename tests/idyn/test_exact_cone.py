"""The law with the round cone: its conditions over random states, isotropy, a convex program solved by SCS, and polygons."""

import numpy as np
import pinocchio as pin
import pytest
import scs
from conditions import allowance
from fast import every, fast
from oracles import eliminate, full
from scenes import (
    DT,
    LITERAL,
    PLAIN,
    each_walker,
    limitless,
    predict_scene,
    random_scene,
    random_scenes,
    standing_scene,
    turned,
)
from scipy.sparse import csc_matrix

from idyn import Options, State, make_law, predict
from idyn.solvers.linalg import RANK


def solve(scene, law="exact-cone", options=PLAIN, guess=None, **changes):
    return predict_scene(scene, law, options, guess, **changes)


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
