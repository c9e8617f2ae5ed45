"""The law `exact-cone` against Pinocchio's ADMM solver: under the predicted torques it finds the predicted motion."""

import numpy as np
import pinocchio as pin
import pytest
from conditions import allowance
from fast import fast
from oracles import full
from scenes import DT, LITERAL, random_scene

from idyn.laws import make_law
from idyn.options import Options
from idyn.prediction.predict import predict


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
