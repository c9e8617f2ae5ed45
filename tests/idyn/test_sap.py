"""The law of ground with known stiffness, dissipation and friction, against another solver and known answers."""

import msgspec
import numpy as np
import pytest
import scs
from fast import every
from oracles import full, outcome
from scenes import DT, LITERAL, each_walker, random_scene, standing_scene, with_contacts
from scipy import sparse

from idyn import Consistency, Options, predict
from idyn.contact.ground import Ground, Material
from idyn.laws import SapSettings, make_law
from idyn.laws.sap import Sap

MATERIALS = {
    "shipped": Material(1e5, 5e-3),
    "soft": Material(2e3, 0.05),
    "rigid": Material(np.inf, DT),
    "bouncing": Material(1e4, 0.0),
    "near": Material(1e4, 0.02, touching_only=False),
}


PLAINLY = Options.paper(ground=LITERAL)


def solve(scene, law, options=PLAINLY, **more):
    return predict(scene.robot, scene.state, scene.contacts, scene.q_ddot, law=law, dt=DT, options=options, **more)


def sunk(scene, depth):
    """The same contacts, gaps less by `depth` [m]."""
    return with_contacts(scene, gaps=scene.contacts.gaps - depth)


def rows_of(scene, material, f):
    """R (3n) and v̂ (3n) of the active contacts, from the dense system; and which are active (n)."""
    D, settle, gaps = f.J @ np.linalg.solve(f.M, f.J.T), DT + material.dissipation, scene.contacts.gaps
    R, aim = np.empty(3 * len(gaps)), np.zeros(3 * len(gaps))
    for i, gap in enumerate(gaps):
        w = np.linalg.norm(D[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]) / 3
        R[3 * i : 3 * i + 2] = material.sigma * w
        R[3 * i + 2] = max(material.beta**2 * w / (4 * np.pi**2), 1 / (DT * material.stiffness * settle))
        aim[3 * i + 2] = -gap / settle
    return R, aim, (gaps <= 0) | (not material.touching_only)


def dual_optimum(scene, material):
    """Impulses that solve the dual program min ½γᵀ(D + R)γ + γᵀ(u₀ − v̂) over round cones [SAP (22)], by SCS (3n)."""
    f = full(scene.robot, scene.state, scene.contacts)
    R, aim, counts = rows_of(scene, material, f)
    u0 = f.at_end(outcome(f, scene.q_ddot, DT, np.zeros(len(R)))[0])
    D = np.array([f.at_end(outcome(f, scene.q_ddot, DT, e)[0]) - u0 for e in np.eye(len(R))]).T
    mu, kept = np.minimum(scene.contacts.mu, 10.0), np.repeat(counts, 3)
    p = np.zeros(len(R))
    if not counts.any():
        return p
    mass = 1 / np.mean(np.diag(D + np.diag(R))[kept])  # in units in which the program is of order one
    Q, r = mass * (D + np.diag(R))[np.ix_(kept, kept)], (u0 - aim)[kept]
    order = np.arange(kept.sum()).reshape(-1, 3)[:, [2, 0, 1]].ravel()  # a cone is (μ p_N, p_S, p_T)
    A = -np.eye(len(order))[order]
    A[::3] *= mu[counts][:, None]
    size = np.abs(r).max()
    data = {"P": sparse.csc_matrix(np.triu(Q)), "A": sparse.csc_matrix(A), "b": np.zeros(len(order)), "c": r / size}
    answer = scs.SCS(data, {"q": [3] * counts.sum()}, eps_abs=1e-11, eps_rel=0, verbose=False, max_iters=200_000).solve()
    assert answer["info"]["status"] == "solved"
    p[kept] = size * mass * answer["x"]
    return p


@every("material", MATERIALS)
@each_walker
def test_impulses_solve_the_dual_program(name, material):
    """For random motions with separating, sticking and sliding contacts."""
    law, pressed = Sap(MATERIALS[material]), 0
    for seed in range(8):
        scene = sunk(random_scene(name, seed), 2e-4)
        answer = solve(scene, law)
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
    equal = solve(scene, make_law("coulomb")).normal_force  # of the rigid law
    gaps = -equal / stiffness
    stands = with_contacts(scene, gaps=gaps)
    answer = solve(stands, law)
    assert answer.normal_force.sum() == pytest.approx(scene.robot.weight, rel=1e-3)
    assert np.abs(answer.v_plus).max() < 1e-5
    assert solve(scene, law).normal_force.sum() < 0.5 * scene.robot.weight


def test_the_ground_and_consistency_options_do_not_matter():
    """This law has a ground model of its own."""
    scene = sunk(random_scene("quadruped", 3), 1e-4)
    law, rigid = make_law("sap"), Options.paper(ground=LITERAL)
    first = solve(scene, law, rigid)
    yields = solve(scene, law, Options.paper(ground=Ground.rigid(relaxation=0.02, memory=0.01)), guess=first.guess)
    assert yields.residuals.worst < 1e-8
    np.testing.assert_allclose(yields.p, first.p, atol=1e-12)


@every("consistency", Consistency)
def test_every_demand_is_answered_unchanged(consistency):
    """Feet that are driven into the ground: other laws change the demand or refuse it, springs push back."""
    scene = sunk(standing_scene("quadruped"), 1e-4)
    scene = msgspec.structs.replace(scene, q_ddot=np.random.default_rng(0).normal(scale=300.0, size=scene.robot.na))
    answer = solve(scene, make_law("sap"), Options.paper(consistency=consistency, ground=LITERAL))
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
    answers = [solve(sunk(random_scene("solo12", seed), 1e-4), law) for seed in range(60)]
    assert {(answer.law, answer.status.name) for answer in answers} == {("sap", "SOLVED")}
    assert max(answer.iterations for answer in answers) < 60
