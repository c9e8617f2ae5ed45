"""Closed chains: against dense algebra, against the same linkage cut at another joint, and invalid closures."""

from functools import lru_cache

import numpy as np
import pinocchio as pin
import pytest
import urdf
from certificates import certified
from fast import every, every_row, fast
from oracles import full
from scenes import DT, LITERAL

from idyn import (
    Flat,
    Ground,
    Options,
    Robot,
    Status,
    all_outcomes,
    contacts_from_geometry,
    load_robot,
    make_law,
    outcomes,
    predict,
)
from idyn.certificate.certify import CERTIFIED, Claim
from idyn.certificate.momentum import DYNAMICS, SLIP
from idyn.contact.soft import NO_CONSTRAINTS
from idyn.errors import FrameNotFound, InputError
from idyn.model.description import Closure, ContactPoint, Description
from idyn.terms.dynamics import evaluate
from idyn.types import Consistency, Selection, State

LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "convex-one-stage", "cone", "cone-infinite", "contact-free", "sap")


@lru_cache(maxsize=1)
def fivebar():
    return load_robot("fivebar")


def gap_and_rows(robot, q, v=None):
    """Gaps of the chains (3m), by differences their derivative (3m, nv), by Pinocchio. With v: the second derivative (3m)."""
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    data = model.createData()

    def gaps(q):
        pin.framesForwardKinematics(model, data, q)
        ends = [[data.oMf[model.getFrameId(end)] for end in (each.first, each.second)] for each in robot.description.closure]
        return np.concatenate([first.translation - second.translation for first, second in ends])

    if v is not None:
        return (gaps(pin.integrate(model, q, 1e-3 * v)) - 2 * gaps(q) + gaps(pin.integrate(model, q, -1e-3 * v))) / 1e-6
    steps = 1e-6 * np.eye(model.nv)
    columns = [(gaps(pin.integrate(model, q, step)) - gaps(pin.integrate(model, q, -step))) / 2e-6 for step in steps]
    return gaps(q), np.array(columns).T


def moving(seed, open_by=0.0):
    """The quadruped with closed legs in motion that keeps them closed, near the ground; its chains open by some metres."""
    robot, stance = fivebar()
    rng = np.random.default_rng(seed)
    q, u = robot.integrate(stance, np.r_[0.02 * rng.normal(size=6), np.zeros(robot.nv - 6)]), robot.tree.u[6:]
    for _ in range(20):  # other hips, and the knees that close the legs again
        gaps, G = robot.closure_gaps(q)
        step = np.zeros(robot.nv)
        step[u] = np.linalg.lstsq(G[:, u], -gaps, rcond=1e-9)[0]
        q = robot.integrate(q, step)
    q[2] -= contacts_from_geometry(robot, q, Flat(), margin=1.0).gaps.min()
    _, G = robot.closure_gaps(q)
    v = 0.3 * rng.normal(size=robot.nv)
    v -= np.linalg.pinv(G, rcond=1e-9) @ (G @ v)
    if open_by:
        q = robot.integrate(q, np.r_[np.zeros(6), open_by * rng.normal(size=robot.nv - 6)])
    contacts = contacts_from_geometry(robot, q, Flat(), margin=0.01)
    return robot, State(q=q, v=v), contacts, 20.0 * rng.normal(size=robot.na)


def dense(robot, state, contacts, q_ddot, p, rate):
    """v⁺, τ and the closures' generalised impulse Gᵀλ that go with contact impulses p, from the whole system at once."""
    f = full(robot, state, contacts)
    G = gap_and_rows(robot, state.q)[1]
    G[np.abs(G) < 1e-8] = 0.0  # of the differences
    v_a, nu = f.v[f.a] + DT * q_ddot, len(f.u)
    push = f.J.T @ p - DT * f.h
    system = np.block([[f.M[np.ix_(f.u, f.u)], -G[:, f.u].T], [G[:, f.u], np.zeros((len(G), len(G)))]])
    right = np.r_[f.M[f.u] @ f.v + push[f.u] - f.M[np.ix_(f.u, f.a)] @ v_a, -rate - G[:, f.a] @ v_a]
    solution = np.linalg.lstsq(system, right, rcond=1e-10)[0]
    v_plus = np.empty(robot.nv)
    v_plus[f.u], v_plus[f.a] = solution[:nu], v_a
    held = G.T @ solution[nu:]
    tau = (f.M[f.a] @ (v_plus - f.v) - push[f.a] - held[f.a]) / DT
    return v_plus, tau, held, G


@pytest.mark.parametrize("selection", fast([Selection.OFF, Selection.TORQUE], Selection.TORQUE))
@every("law", fast(LAWS, "coulomb", "cone", "sap", "contact-free"))
def test_velocity_torque_and_closure_forces_match_the_full_system(law, selection):
    options = Options.paper(selection=selection, consistency=Consistency.OFF, ground=LITERAL)
    pressed = own = 0
    for seed in range(8):
        robot, state, contacts, q_ddot = moving(seed)
        answer = predict(robot, state, contacts, q_ddot, law=make_law(law), dt=DT, options=options)
        assert answer.residuals.worst < 1e-8
        own += answer.law == law
        drift = DT * gap_and_rows(robot, state.q, state.v)
        v_plus, tau, held, G = dense(robot, state, contacts, q_ddot, answer.p, drift)
        np.testing.assert_allclose(answer.v_plus, v_plus, atol=1e-7)
        np.testing.assert_allclose(answer.tau, tau, atol=1e-4)
        np.testing.assert_allclose(G.T @ answer.closing, held, atol=1e-7)
        flat = np.abs(G).max(axis=1) > 1e-6  # no joint moves the ends out of the plane of the legs
        np.testing.assert_allclose((G @ answer.v_plus + drift)[flat], 0.0, atol=1e-7)
        pressed += answer.normal_force.sum() > 1.0
    assert own >= 6
    assert pressed >= (0 if law == "contact-free" else 4)


@every("law", ["no-slip", "coulomb", "cone"])
def test_open_chains_close_at_the_recovery_speed(law):
    """Beyond the noise floor; within the period where that is slow enough."""
    for size in (1e-5, 1e-3):
        robot, state, contacts, q_ddot = moving(3, open_by=size)
        options = Options.paper(consistency=Consistency.OFF, ground=Ground.rigid())
        answer = predict(robot, state, contacts, 0 * q_ddot, law=make_law(law), dt=DT, options=options)
        assert answer.residuals.worst < 1e-8
        gaps, G = gap_and_rows(robot, state.q)
        apart = gaps.reshape(-1, 3)
        lengths = np.linalg.norm(apart, axis=1)[:, None]
        wanted = np.where(lengths > options.ground.noise, apart * np.minimum(1 / DT, 0.05 / lengths), 0.0).ravel()
        flat = np.abs(G).max(axis=1) > 1e-6
        of_the_middle = 5.0 * np.abs(gaps).max()  # where both points are taken to be
        np.testing.assert_allclose((G @ answer.v_plus)[flat], -wanted[flat], atol=of_the_middle)


@every("consistency", [Consistency.HOLD, Consistency.STICK])
def test_a_projected_demand_keeps_feet_in_place_and_chains_closed(consistency):
    robot, stance = fivebar()
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.01)
    state = State(q=stance, v=np.zeros(robot.nv))
    q_ddot = 30.0 * np.random.default_rng(1).normal(size=robot.na)
    options = Options.paper(consistency=consistency, ground=LITERAL)
    answer = predict(robot, state, contacts, q_ddot, law=make_law("coulomb"), dt=DT, options=options)
    assert answer.status.ok
    assert answer.demand_change > 1e-3
    f = full(robot, state, contacts)
    np.testing.assert_allclose(f.at_end(answer.v_plus).reshape(-1, 3)[:, :2], 0.0, atol=1e-8)


def test_wrong_closure_forces_and_chains_that_come_apart_are_refused():
    """Closure forces are part of the balance of momentum: an error of 1 mN·s shows as a part of that. Where passive knees move
    on, and a hip, the ends separate, and the certificate shows the speed."""
    robot, state, contacts, q_ddot = moving(2)
    law, options = make_law("coulomb"), Options.paper(consistency=Consistency.OFF, ground=LITERAL)
    answer = predict(robot, state, contacts, q_ddot, law=law, dt=DT, options=options)
    G, f, torque = gap_and_rows(robot, state.q)[1], full(robot, state, contacts), np.zeros(robot.nv)
    torque[f.a] = answer.tau
    balance = f.M @ (answer.v_plus - f.v) - f.J.T @ answer.p - DT * (torque - f.h)
    np.testing.assert_allclose(balance, G.T @ answer.closing, atol=1e-8)
    assert np.abs(G.T @ answer.closing).max() > 1e-4
    given = evaluate(robot, state, contacts, dt=DT, ground=LITERAL).dynamics.given
    claim = Claim(law.conditions.value, law.directions, False, np.zeros(0), 0.0, law.material, NO_CONSTRAINTS)
    for spoiled in (0.0, 1e-3):
        closing = answer.closing.copy()
        closing[0] += spoiled
        residuals, _ = certified(given, q_ddot, claim, answer.p, answer.v_plus, answer.tau, closing)
        assert (residuals[DYNAMICS] > 1e-5) == (spoiled > 0.0)
        assert (residuals.max() <= CERTIFIED) == (spoiled == 0.0)
    drift = DT * gap_and_rows(robot, state.q, state.v)
    for moved in (0, 8, 20):
        v_plus = answer.v_plus.copy()
        v_plus[moved] += 1e-3
        residuals, _ = certified(given, q_ddot, claim, answer.p, v_plus, answer.tau, answer.closing)
        apart = np.abs(G @ v_plus + drift).max()
        assert residuals[SLIP] == pytest.approx(apart, abs=1e-7)
        assert (apart > 1e-5) == (moved >= 6)


@every("yaw", [1e-6, 0.3, np.pi / 2 - 1e-6, 2.0])
def test_closure_forces_turn_with_the_robot(yaw):
    """A plane linkage has a redundant row: at any yaw there is no force across its plane."""
    robot, stance = fivebar()
    contacts = contacts_from_geometry(robot, stance, Flat(), margin=0.01)
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    turned = np.r_[turn @ stance[:3], 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2), stance[7:]]
    law, still = make_law("coulomb"), np.zeros(robot.nv)
    one = predict(robot, State(q=stance, v=still), contacts, np.zeros(robot.na), law=law, dt=DT)
    contacts = contacts_from_geometry(robot, turned, Flat(), margin=0.01)
    other = predict(robot, State(q=turned, v=still), contacts, np.zeros(robot.na), law=law, dt=DT)
    np.testing.assert_allclose(other.closing.reshape(-1, 3), one.closing.reshape(-1, 3) @ turn.T, atol=1e-9)
    np.testing.assert_allclose(other.tau, one.tau, atol=1e-7)


@every("law", ["coulomb", "exact-cone"])
def test_chains_that_no_motion_keeps_closed_are_answered_without_contacts(law):
    """Chains far from closed: no law has a certificate, and Pinocchio's solvers would end the process without a contact."""
    robot, stance = fivebar()
    rng = np.random.default_rng(1)
    q = robot.with_joint_angles(robot.integrate(stance, 0.3 * rng.normal(size=robot.nv)), np.zeros(robot.na))
    state = State(q=q, v=rng.normal(size=robot.nv))
    none = contacts_from_geometry(robot, stance, Flat(), margin=-np.inf)
    answer = predict(robot, state, none, np.zeros(robot.na), law=law, dt=DT)
    assert answer.status is Status.NOT_CERTIFIED
    assert np.isfinite(answer.tau).all()


def test_redundant_motors_of_a_chain_do_not_work_against_one_another():
    """Both hips and one knee of a leg are actuated, in free fall: torques do not depend on the pitch."""
    torques = []
    for pitch in (0.0, 1e-6, 1e-3, 0.5):
        robot = leg().variant(unactuated=("knee2",))
        angles = {"hip": -1.1, "hip2": 1.1, "knee": 1.6, "knee2": -1.6}
        step = np.r_[np.zeros(6), [angles[name] for name in robot.tree.dof_names[6:]]]
        q = robot.integrate(robot.neutral(), step)
        q[3:7] = 0.0, np.sin(pitch / 2), 0.0, np.cos(pitch / 2)
        contacts = contacts_from_geometry(robot, q, Flat(), margin=-np.inf)
        answer = predict(robot, State(q=q, v=np.zeros(robot.nv)), contacts, np.zeros(3), law=make_law("coulomb"), dt=DT)
        torques.append(answer.tau)
    np.testing.assert_allclose(torques, np.tile(torques[0], (4, 1)), atol=1e-6)


@every_row(
    ([("LF_front_end", "LF_hind_ende")], FrameNotFound, "LF_hind_ende"),
    ([("LF_front_end", "LF_front_shank")], InputError, "two bodies"),
    (2 * [("LF_front_end", "LF_hind_end")], InputError, "twice"),
)
def test_invalid_closures_are_refused_by_name(ends, error, words):
    with pytest.raises(error, match=words):
        fivebar()[0].variant(closure=tuple(Closure(first=first, second=second) for first, second in ends))


def test_the_predicted_motion_is_among_those_of_forward_dynamics():
    """By Lemke's method and by all combinations of modes; what the equations of motion leave is the closures' impulse."""
    options = Options.paper(selection=Selection.TORQUE, consistency=Consistency.OFF, ground=LITERAL)
    found = 0
    for seed in range(8):
        robot, state, contacts, q_ddot = moving(seed)
        answer = predict(robot, state, contacts, q_ddot, law=make_law("coulomb"), dt=DT, options=options)
        if answer.law != "coulomb" or len(contacts) > 3:  # of four feet too many combinations are singular
            continue
        f, G = full(robot, state, contacts), gap_and_rows(robot, state.q)[1]
        drift = DT * gap_and_rows(robot, state.q, state.v)
        every = all_outcomes(robot, state, contacts, answer.tau, DT)
        assert not every.undecided
        some = outcomes(robot, state, contacts, answer.tau, DT, samples=5)
        force = -f.h
        force[f.a] += answer.tau
        for motions in (every.found, some):
            assert min(np.abs(each.v_plus - answer.v_plus).max() for each in motions) < 1e-6
            for each in motions:
                np.testing.assert_allclose(G @ each.v_plus + drift, 0.0, atol=1e-6)
                left = f.M @ (each.v_plus - f.v) - f.J.T @ each.impulse - DT * force
                held = G.T @ np.linalg.lstsq(G.T, left, rcond=1e-7)[0]
                np.testing.assert_allclose(left, held, atol=1e-6)
        found += 1
    assert found >= 4


def leg():
    """One leg below a body: two thighs, two shanks, cut at the foot."""

    def link(name, mass, centre):
        return urdf.link(name, mass, (0.002, 0.003, 0.001), centre)

    def joint(name, parent, child, z):
        return urdf.joint(name, parent, child, axis="0 1 0", at=float(z), kind="continuous")

    links = [link("body", 3.0, 0.0), *(link(f"thigh{k}", 0.1, -0.05) + link(f"shank{k}", 0.1, -0.1) for k in ("", "2"))]
    joints, names = [], ("foot", "foot2")
    for k, foot in zip(("", "2"), names, strict=True):
        joints += [joint(f"hip{k}", "body", f"thigh{k}", 0), joint(f"knee{k}", f"thigh{k}", f"shank{k}", -0.1)]
        joints.append(urdf.joint(f"end{k}", f"shank{k}", foot, at=-0.2))
    text = urdf.robot("leg", *links, *map(urdf.link, names), *joints)
    contact = (ContactPoint(frame="foot", radius=0.0, mu=0.7),)
    closure = (Closure(first="foot", second="foot2"),)
    return Robot(Description(urdf=text, contact=contact, unactuated=("knee", "knee2"), closure=closure))
