"""Selection: never a larger torque, never another motion, never off the face; quadprog's optimum on it; other outcomes."""

import msgspec
import numpy as np
import pytest
import scenes
import scipy.linalg
import scipy.optimize
from conditions import allowance, coulomb_error, dynamics
from fast import every, fast, first_is_fast
from hard import wild_scene
from oracles import Full, corners, coulomb_lcp, enumerate_lcp, facet_normals, full, solve_qp, solve_semidefinite_qp
from scenes import DT, Scene, each_walker, many_points, predict_scene, random_scene, standing_scene, walker, with_contacts

from idyn import Batch, InputError, Options, all_outcomes, make_law, outcomes, predict, predict_batch
from idyn.contact.contacts import centres_of
from idyn.types import Array, Consistency, Guess, Prediction, Selection, State

LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "convex-infinite", "cone", "cone-infinite")
RIGID = ("no-slip", "cone-infinite")  # laws that hold feet with any force: demands that drag them cost meganewtons


def stances(name, law, count, points=1):
    """Without torque limits: those are another test's. Under rigid laws all feet stand."""
    settings = {"touching": 1.0} if law in RIGID else {}
    for seed in range(count):
        scene = random_scene(name, seed, **settings)
        yield many_points(msgspec.structs.replace(scene, robot=scenes.limitless(name)), points)


def solve(scene, law, selection, guess=None, **changes):
    consistency = Consistency.HOLD if law in RIGID else Consistency.OFF
    options = Options.paper(selection=selection, consistency=consistency, ground=scenes.LITERAL)
    return predict_scene(scene, law, options, guess, **changes)


def faces(law, answer, f, contacts):
    """The face to choose from, and the fallback for an empty one."""
    mu, extra = contacts.mu, allowance(contacts.gaps, DT)
    if law == "coulomb":
        return [coulomb_face(answer, f, mu, extra)]
    if law == "exact-cone":
        return [exact_cone_face(answer, f, mu, extra)]
    if law == "no-slip":
        return no_slip_face(answer, f, mu, extra)
    if law == "cone":
        return [cone_face(answer, f, mu, extra)]
    return [convex_face(mu, 4)] + [convex_face(np.where(mu > 0, np.inf, 0), 4)] * law.endswith("-infinite")


@every(("law", "points"), fast([*((law, 1) for law in LAWS), ("coulomb", 3), ("convex", 3)], "coulomb", "no-slip"))
@each_walker
def test_selection_finds_the_smallest_torque_and_keeps_the_motion(name, law, points):
    """v⁺ does not move, every point is on the face and certified. An independent program in all variables has the same τ."""
    for scene in stances(name, law, 40 if points == 1 else 10, points):
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE)
        assert plain.law == chosen.law
        if law in RIGID and not plain.status.ok:
            continue
        assert (plain.law, plain.demand_change) == (law, chosen.demand_change)
        assert np.abs(chosen.v_plus - plain.v_plus).max() < 1e-9
        assert chosen.residuals.worst < 1e-8
        f = full(scene.robot, scene.state, scene.contacts)
        assert np.linalg.norm(chosen.tau) <= np.linalg.norm(plain.tau) * (1 + 1e-9)
        possible = faces(law, plain, f, scene.contacts)
        assert any(face.contains(f, chosen.p, plain.p, 1e-8) for face in possible)
        if law == "cone-infinite":
            continue
        for face in (g for g in possible if not g.empty(f, plain.p)):  # real cones first, unless they cost torque
            tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, np.zeros(scene.robot.na))
            if np.linalg.norm(tau) <= np.linalg.norm(plain.tau) * (1 + 1e-9):
                break
        assert np.linalg.norm(chosen.tau) == pytest.approx(np.linalg.norm(tau), abs=1e-7 * np.linalg.norm(plain.tau))
        np.testing.assert_allclose(chosen.tau, tau, atol=3e-5 * np.linalg.norm(plain.tau))


def sliding(name, seed, points):
    """Feet that slide and turn on the ground, one leg moving: some points stick, some slide, some separate."""
    rng = np.random.default_rng(seed)
    scene, v = standing_scene(name, mu=0.3), np.zeros(18)
    v[:2], v[5] = 0.3 * rng.normal(size=2), rng.normal()
    v[6 + 3 * (seed % 4) :][:3] = 0.05 * rng.normal(size=3)
    moving = State(q=scene.state.q, v=v)
    return many_points(msgspec.structs.replace(scene, robot=scenes.limitless(name), state=moving), points)


@pytest.mark.parametrize("law", first_is_fast(["coulomb", "exact-cone"], 0))
@each_walker
def test_sliding_feet_share_their_load_by_selection(name, law):
    """Friction of sliding points stays at its limit, the load is shared freely; on round cones, by fewer points."""
    choices = 0
    for seed in range(40):
        scene = sliding(name, seed, 3)
        plain, chosen = solve(scene, law, Selection.OFF), solve(scene, law, Selection.TORQUE)
        f = full(scene.robot, scene.state, scene.contacts)
        face = faces(law, plain, f, scene.contacts)[0]
        tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, np.zeros(12))
        assert "unselected" not in chosen.rung
        assert np.linalg.norm(chosen.tau) == pytest.approx(np.linalg.norm(tau), abs=1e-7 * np.linalg.norm(plain.tau))
        assert face.contains(f, chosen.p, plain.p, 1e-8)
        choices += chosen.null_dim > 0
    assert choices > (10 if law == "coulomb" else 2)


def earlier(scene, law):
    """A guess of another answer: the torque and impulses that the tick before might have had."""
    rng = np.random.default_rng(len(scene.contacts))
    answer = solve(scene, law, Selection.TORQUE)
    force = answer.force + 10.0 * rng.normal(size=answer.force.shape)
    tau = answer.tau + rng.normal(size=12)
    return Guess(law="another", keys=scene.contacts.keys, basis=answer.guess.basis, tau=tau, force=force)


def in_contact_rows(contacts, force):
    frames = np.stack([contacts.tangents, np.cross(contacts.normals, contacts.tangents), contacts.normals], axis=1)
    return np.einsum("nij,nj->ni", frames, force).ravel()


@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "convex"], "coulomb"))
@each_walker
def test_changes_of_torque_and_of_impulse_are_minimal_over_the_face(name, law):
    """min ‖τ − τ_prev‖², and min ‖p − p_prev‖² with p_prev in the world: contacts may be in another order or turned."""
    for seed, scene in enumerate(stances(name, law, 20)):
        guess, c, plain = earlier(scene, law), scene.contacts, solve(scene, law, Selection.OFF)
        f = full(scene.robot, scene.state, c)
        face = next(g for g in faces(law, plain, f, c) if not g.empty(f, plain.p))
        chosen = solve(scene, law, Selection.TORQUE_CHANGE, guess)
        tau = face.nearest(f, plain.p, -f.Ja.T / DT, plain.tau, guess.tau)
        scale = max(np.linalg.norm(plain.tau), np.linalg.norm(plain.tau - guess.tau))
        assert np.linalg.norm(chosen.tau - guess.tau) == pytest.approx(np.linalg.norm(tau - guess.tau), abs=1e-7 * scale)
        assert np.abs(chosen.v_plus - plain.v_plus).max() < 1e-9
        order = np.random.default_rng(seed).permutation(len(c))
        shuffled = msgspec.structs.replace(guess, keys=tuple(c.keys[i] for i in order), force=guess.force[order])
        before = in_contact_rows(c, DT * guess.force)
        p = face.nearest(f, plain.p, np.eye(3 * len(c)), plain.p, before)
        chosen = solve(scene, law, Selection.IMPULSE_CHANGE, shuffled)
        np.testing.assert_allclose(chosen.p, p, atol=1e-6 * np.linalg.norm(plain.p - before))


def test_forces_are_the_nearest_to_the_preferred_ones_that_give_the_same_motion():
    """Feet that stand inside their cones: the nearest point of an affine space, by pseudoinverse."""
    scene = standing_scene("solo12", mu=2.0)
    contacts, A = scene.contacts, full(scene.robot, scene.state, scene.contacts).Ju.T
    free = solve(scene, "coulomb", Selection.FORCE)
    preferred = free.force + 0.2 * np.random.default_rng(0).normal(size=(4, 3))
    answer = solve(scene, "coulomb", Selection.FORCE, preferred=preferred)
    wanted = in_contact_rows(contacts, preferred)
    nearest = wanted - np.linalg.pinv(A) @ (A @ wanted - A @ (free.p / DT))
    np.testing.assert_allclose(answer.p / DT, nearest, atol=1e-8)
    assert np.abs(answer.force - free.force).max() > 0.05


def test_new_contacts_count_as_unloaded_and_without_a_guess_the_change_is_from_zero():
    scene = next(s for s in stances("solo12", "convex", 50) if len(s.contacts) == 4)
    guess = earlier(scene, "convex")
    lost = msgspec.structs.replace(guess, keys=guess.keys[1:], force=guess.force[1:])
    zeroed = msgspec.structs.replace(guess, force=np.vstack([np.zeros((1, 3)), guess.force[1:]]))
    strange = msgspec.structs.replace(lost, keys=(*lost.keys, "another place"), force=np.vstack([lost.force, [[9, 9, 9]]]))
    expected = solve(scene, "convex", Selection.IMPULSE_CHANGE, zeroed).p
    np.testing.assert_allclose(solve(scene, "convex", Selection.IMPULSE_CHANGE, lost).p, expected, atol=1e-12)
    np.testing.assert_allclose(solve(scene, "convex", Selection.IMPULSE_CHANGE, strange).p, expected, atol=1e-12)
    scene = next(stances("solo12", "coulomb", 1))
    torque = solve(scene, "coulomb", Selection.TORQUE).tau
    np.testing.assert_allclose(solve(scene, "coulomb", Selection.TORQUE_CHANGE).tau, torque, atol=1e-9)


@every("points", [1, 3])
def test_the_smallest_change_of_torque_is_measured_from_the_last_torque(points):
    """With few and with many contacts: no certified answer of another objective is nearer to the last torque."""
    scene = many_points(msgspec.structs.replace(standing_scene("quadruped"), robot=scenes.limitless("quadruped")), points)
    first = solve(scene, "coulomb", Selection.TORQUE)
    for seed in range(5):
        last = first.tau + 0.1 * np.random.default_rng(seed).normal(size=len(first.tau))
        guess, away = msgspec.structs.replace(first.guess, tau=last), {}
        for kind in (Selection.TORQUE, Selection.OFF, Selection.FORCE, Selection.TORQUE_CHANGE):
            answer = solve(scene, "coulomb", kind, guess)
            assert answer.status.ok
            away[kind] = np.linalg.norm(answer.tau - last)
        nearest = away.pop(Selection.TORQUE_CHANGE)
        assert nearest < 0.95 * min(away.values())


# -- the face of each law's solution (MATHEMATICS §3.5) written in all variables ---------------------------------------


ZERO = 1e-9  # speeds below this are zero [m/s]


class Polyhedron:
    """p = G x with A x ≥ 0 and E x = 0, and all with the same J_uᵀ p."""

    def __init__(self, G: Array, A: Array, E: Array) -> None:
        self.G, self.A, self.E = G, A, E

    def contains(self, f: Full, p: Array, p0: Array, tolerance: float) -> bool:
        """Whether p is a point of the face through p0, up to `tolerance` times the largest impulse."""
        scale, m = max(np.abs(p0).max(initial=0), 1e-6), self.G.shape[1]
        E, e = np.vstack([self.E, self.G]), np.r_[np.zeros(len(self.E)), p / scale]
        error = np.ones((len(E), 1))
        rows, limit = np.block([[-self.A, -np.ones((len(self.A), 1))], [E, -error], [-E, -error]]), np.zeros(len(self.A))
        bounds = [(None, None)] * m + [(0, None)]
        found = scipy.optimize.linprog(np.r_[np.zeros(m), 1.0], rows, np.r_[limit, e, -e], bounds=bounds)
        same = np.abs(f.Ju.T @ (p - p0)).max(initial=0) < tolerance * scale
        return bool(same and found.status == 0 and found.x[-1] < tolerance)

    def empty(self, f: Full, p0: Array) -> bool:
        """Whether no point of it has the J_uᵀ p of p0."""
        scale = max(np.abs(p0).max(initial=0), 1e-6)
        E, e = np.vstack([self.E, f.Ju.T @ self.G]), np.r_[np.zeros(len(self.E)), f.Ju.T @ p0 / scale]
        cost, none = np.zeros(self.G.shape[1]), np.zeros(len(self.A))
        return scipy.optimize.linprog(cost, -self.A, none, E, e, bounds=(None, None)).status == 2

    def nearest(self, f: Full, p0: Array, K: Array, k0: Array, target: Array) -> Array:
        """The value k₀ + K (p − p₀) nearest to `target` over the face through p0."""
        unit, size = max(np.abs(p0).max(initial=0), 1e-6), np.abs(K).max(initial=0) or 1.0
        B, error = K @ self.G / size, (k0 - K @ p0 - target) / (size * unit)
        E, e = np.vstack([self.E, f.Ju.T @ self.G]), np.r_[np.zeros(len(self.E)), f.Ju.T @ p0 / unit]
        x = solve_semidefinite_qp(B.T @ B, B.T @ error, self.A, np.full(len(self.A), -1e-10), E, e)
        return k0 + K @ (unit * self.G @ x - p0)


def convex_face(mu: Array, k: int, pinned: Array | None = None) -> Polyhedron:
    """p_N ≥ 0 and the friction polygon; μ = ∞ has none; no tangential impulse at μ = 0; `pinned` components are 0 (3n)."""
    n = len(mu)
    A, E = [np.eye(3 * n)[2::3]], [np.zeros((0, 3 * n)) if pinned is None else np.eye(3 * n)[pinned]]
    for i in range(n):
        if 0 < mu[i] < np.inf:
            facets = np.zeros((k, 3 * n))
            facets[:, 3 * i : 3 * i + 2], facets[:, 3 * i + 2] = -facet_normals(k), mu[i]
            A.append(facets)
        elif mu[i] == 0:
            E.append(np.eye(3 * n)[3 * i : 3 * i + 2])
    return Polyhedron(np.eye(3 * n), np.vstack(A), np.vstack(E))


def no_slip_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> list[Polyhedron]:
    """First inside the real cones, then with tangential impulses as they like. Contacts that part carry nothing, unless the
    law holds them all the same: those keep tangential impulses, which no cone allows."""
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    parts = u[:, 2] + extra > ZERO
    held = parts & (mu > 0) & (np.abs(u[:, :2]).max(axis=1) < ZERO)
    pinned = np.repeat(parts & ~held, 3)
    pinned[2::3] = parts
    unlimited = convex_face(np.where(mu > 0, np.inf, 0.0), k, pinned)
    return [unlimited] if held.any() else [convex_face(mu, k, pinned), unlimited]


def coulomb_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> Polyhedron:
    """In p_N and the k shares p_F of each contact: zero where the slack is not, Σ p_F ≤ μ p_N, = where it slides."""
    n, d = len(mu), corners(k)
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    G, A, E = np.zeros((3 * n, (1 + k) * n)), [np.eye((1 + k) * n)], []
    for i in range(n):
        shares = range(n + k * i, n + k * i + k)
        G[3 * i + 2, i] = 1
        G[3 * i : 3 * i + 2, shares] = d.T
        along = d @ u[i, :2]
        slip = max(-along.min(), 0.0)
        zero = [i] * int(u[i, 2] + extra[i] > ZERO) + [j for j, w in zip(shares, along + slip, strict=True) if w > 3 * ZERO]
        E.append(np.eye((1 + k) * n)[zero])
        limit = np.zeros((1, (1 + k) * n))
        limit[0, i], limit[0, shares] = mu[i], -1
        (E if slip > ZERO else A).append(limit)
    return Polyhedron(G, np.vstack(A), np.vstack(E))


def exact_cone_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 8) -> Polyhedron:
    """Sliding contacts keep the direction of friction, sticking ones a polygon with a corner there, in the cone; 0 < μ < ∞."""
    n = len(mu)
    u, p = f.at_end(answer.v_plus).reshape(-1, 3), answer.p.reshape(-1, 3)
    A, E = [np.eye(3 * n)[2::3]], [np.zeros((0, 3 * n))]
    for i in range(n):
        rows, angle = np.eye(3 * n)[3 * i : 3 * i + 3], np.arctan2(p[i, 1], p[i, 0])
        if u[i, 2] + extra[i] > ZERO:
            E.append(rows)
        elif np.linalg.norm(u[i, :2]) > ZERO:
            if not p[i].any():
                angle = np.arctan2(-u[i, 1], -u[i, 0])
            E.append(rows[:2] - mu[i] * np.outer([np.cos(angle), np.sin(angle)], rows[2]))
        else:
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            A.append(mu[i] * rows[2] - facet_normals(k) @ turn.T @ rows[:2])
    return Polyhedron(np.eye(3 * n), np.vstack(A), np.vstack(E))


def cone_face(answer: Prediction, f: Full, mu: Array, extra: Array, k: int = 4) -> Polyhedron:
    """In the loads of each contact's k rays: none along which the contact opens. For 0 < μ < ∞."""
    n, d = len(mu), corners(k)
    u = f.at_end(answer.v_plus).reshape(-1, 3)
    G, zero = np.zeros((3 * n, k * n)), []
    for i in range(n):
        rays = range(k * i, k * i + k)
        G[3 * i : 3 * i + 2, rays], G[3 * i + 2, rays] = mu[i] * d.T, 1
        zero += [j for j, w in zip(rays, u[i, 2] + extra[i] + mu[i] * d @ u[i, :2], strict=True) if w > 3 * ZERO]
    return Polyhedron(G, np.eye(k * n), np.eye(k * n)[zero])


# -- torque limits inside the selection --------------------------------------------------------------------------------


def limited(robot, bound):
    return robot.variant(tau_max=dict(zip(robot.joint_names, bound, strict=True)))


def solve_held(scene, law, selection=Selection.TORQUE):
    options = Options.paper(selection=selection, consistency=Consistency.HOLD, ground=scenes.LITERAL)
    return predict_scene(scene, law, options)


def cut(name, seed, law, share):
    """Torque limits at a share of the free choice of four loaded feet, the answers without and with selection, and the face."""
    scene = random_scene(name, seed, n=4, mu=0.6, touching=1.0)
    state = State(q=scene.state.q, v=0.05 * scene.state.v)
    scene = msgspec.structs.replace(scene, state=state, q_ddot=0.05 * scene.q_ddot)
    bound = np.full(12, share * np.abs(solve_held(scene, law).tau).max())
    scene = msgspec.structs.replace(scene, robot=limited(scene.robot, bound))
    plain, answer = solve_held(scene, law, Selection.OFF), solve_held(scene, law)
    f, mu = full(scene.robot, scene.state, scene.contacts), scene.contacts.mu
    face = coulomb_face(plain, f, mu, allowance(scene.contacts.gaps, DT)) if law == "coulomb" else convex_face(mu, 4)
    return bound, plain, answer, f, face


def affine(face, f, plain):
    """τ = τ₀ − B x over A x ≥ 0, E x = e; p = G x in units of the largest impulse."""
    unit = max(np.abs(plain.p).max(initial=0), 1e-6)
    B = f.Ja.T @ face.G * unit / DT
    E, e = np.vstack([face.E, f.Ju.T @ face.G]), np.r_[np.zeros(len(face.E)), f.Ju.T @ plain.p / unit]
    return plain.tau + f.Ja.T @ plain.p / DT, B, E, e


def smallest_excess(face, f, plain, bound):
    """The least Σ s²  s.t.  |τ| ≤ bound + s, s ≥ 0 over the face, by quadprog."""
    free, B, E, e = affine(face, f, plain)
    m, na, unit = B.shape[1], len(bound), bound[0]
    H = scipy.linalg.block_diag(np.zeros((m, m)), np.eye(na))
    one, none = np.eye(na), np.zeros((len(face.A), na))
    A = np.block([[B / unit, one], [-B / unit, one], [face.A, none], [np.zeros((na, m)), one]])
    lower = np.r_[(free - bound) / unit, (-free - bound) / unit, np.full(len(face.A), -1e-10), np.zeros(na)]
    x = solve_semidefinite_qp(H, np.zeros(m + na), A, lower, np.hstack([E, np.zeros((len(E), na))]), e)
    return unit**2 * x[m:] @ x[m:]


@pytest.mark.full
@pytest.mark.parametrize("share", fast([0.98, 0.9, 0.5], 0.9))
@every("law", first_is_fast(["coulomb", "convex"]))
@each_walker
def test_torque_limits_are_kept_where_possible(name, law, share):
    """Limits cut to a share of the unlimited choice: the excess is the smallest sum of squares, and 0 if possible."""
    kept = exceeded = near = 0
    for seed in range(25):
        bound, plain, answer, f, face = cut(name, seed, law, share)
        least = smallest_excess(face, f, plain, bound)
        assert np.abs(answer.v_plus - plain.v_plus).max() < 1e-9
        assert answer.torque_excess == pytest.approx(max(np.abs(answer.tau).max() - bound[0], 0), abs=1e-9)
        beyond = np.maximum(np.abs(answer.tau) - bound, 0)
        assert beyond @ beyond == pytest.approx(least, rel=0.05, abs=1e-8 * bound[0] ** 2)
        near += beyond @ beyond <= (1 + 1e-4) * least + 1e-8 * bound[0] ** 2
        assert (answer.torque_excess == 0) == (least < 1e-8 * bound[0] ** 2)
        kept += answer.torque_excess == 0
        exceeded += answer.torque_excess > 0
    assert near >= 24  # of 25; one program is too stiff for its limits
    assert exceeded > 0
    assert kept > 0 or share == 0.5


@pytest.mark.full
@every("law", first_is_fast(["coulomb", "convex"]))
@each_walker
def test_within_the_limits_the_torque_is_the_smallest(name, law):
    compared = 0
    for seed in range(30):
        bound, plain, answer, f, face = cut(name, seed, law, 0.9)
        if answer.torque_excess > 0 or answer.null_dim == 0:
            continue
        compared += 1
        free, B, E, e = affine(face, f, plain)
        A = np.vstack([face.A, B / bound[0], -B / bound[0]])
        lower = np.r_[np.full(len(face.A), -1e-10), (free - bound) / bound[0], (-free - bound) / bound[0]]
        x = solve_semidefinite_qp(B.T @ B / bound[0] ** 2, -B.T @ free / bound[0] ** 2, A, lower, E, e)
        assert np.linalg.norm(answer.tau) == pytest.approx(np.linalg.norm(free - B @ x), rel=1e-6)
    assert compared > 1


def reference_stance():
    """solo12 at q₂ = 0.3 m, legs (0, 0.7, −1.4) in front and mirrored behind, on the points where its foot frames are."""
    robot, _ = walker("solo12")
    q = robot.neutral()
    q[2] = 0.3
    q = robot.with_joint_angles(q, np.array([0, 0.7, -1.4] * 2 + [0, -0.7, 1.4] * 2))
    points = centres_of(robot, q, robot.spheres)
    contacts = scenes.feet(robot, q, mu=np.full(4, 0.6), points=points)
    return Scene(robot=robot, state=State(q=q, v=np.zeros(18)), contacts=contacts, q_ddot=np.zeros(12))


def test_the_convex_law_loads_four_feet_equally_and_an_excess_without_choice_is_reported():
    """With one foot there is no choice."""
    answer = solve_held(reference_stance(), "convex", Selection.OFF)
    np.testing.assert_allclose(answer.normal_force, 6.131, atol=5e-4)
    assert np.linalg.norm(answer.tau) == pytest.approx(1.3491, abs=5e-5)
    scene = random_scene("solo12", 0, n=1)
    free = solve_held(scene, "coulomb")
    assert free.null_dim == 0
    scene = msgspec.structs.replace(scene, robot=limited(scene.robot, np.full(12, 0.5 * np.abs(free.tau).max())))
    answer = solve_held(scene, "coulomb")
    np.testing.assert_array_equal(answer.tau, free.tau)
    assert answer.torque_excess == pytest.approx(0.5 * np.abs(free.tau).max())


@every("law", ["coulomb", "no-slip", "convex"])
def test_selection_matches_the_static_optimum_of_the_reference_stance(law):
    """|τ| = 1.00864: the optimum of the statics, min ‖h_a − J_aᵀ f‖ s.t. J_uᵀ f = h_u and the cone, by two back ends."""
    scene = reference_stance()
    f = full(scene.robot, scene.state, scene.contacts)
    facets = np.zeros((20, 12))
    for i in range(4):
        facets[4 * i : 4 * i + 4, 3 * i : 3 * i + 2], facets[4 * i : 4 * i + 4, 3 * i + 2] = -facet_normals(4), 0.6
        facets[16 + i, 3 * i + 2] = 1
    answer = solve_held(scene, law)
    for solver in ("quadprog", "piqp"):
        force = solve_qp(f.Ja @ f.Ja.T, -f.Ja @ f.h[f.a], facets, np.zeros(20), f.Ju.T, f.h[f.u], solver=solver)
        np.testing.assert_allclose(answer.p / DT, force, atol=1e-7)
        np.testing.assert_allclose(answer.tau, f.h[f.a] - f.Ja.T @ force, atol=1e-8)
    np.testing.assert_allclose(answer.normal_force, 6.131, atol=5e-4)
    assert np.linalg.norm(answer.tau) == pytest.approx(1.008642, abs=1e-6)
    inwards = answer.force[:, 0] * np.sign(scene.contacts.points[:, 0])
    assert (inwards < -1).all()
    assert answer.null_dim == 6


def predicted(scene):
    return predict_scene(scene, "coulomb", Options.paper(ground=scenes.LITERAL))


def touching(scene, mu):
    n = len(scene.contacts)
    return with_contacts(scene, mu=np.broadcast_to(mu, n).copy(), gaps=np.zeros(n))


def test_a_stance_has_one_outcome_and_under_a_wrong_torque_another():
    scene = standing_scene("quadruped", mu=0.6)
    assert len(outcomes(scene.robot, scene.state, scene.contacts, predicted(scene).tau, DT)) == 1
    answer = predicted(scene)
    (other,) = outcomes(scene.robot, scene.state, scene.contacts, 0.5 * answer.tau, DT)
    assert np.abs(other.v_plus - answer.v_plus).max() > 1e-3
    fewer = msgspec.structs.replace(scene.contacts, mu=np.zeros(4))
    assert len(outcomes(scene.robot, scene.state, fewer, answer.tau, DT)) == 1


# -- all outcomes: compared with every complementary basis of the LCP, and with random searches ------------------------


def motions_of(scene, force):
    """v⁺ of every complementary basis of the LCP, under a generalised force (nv); finite friction."""
    f = full(scene.robot, scene.state, scene.contacts)
    free = f.v + DT * np.linalg.solve(f.M, force - f.h)
    M, q, G = coulomb_lcp(f.J @ np.linalg.solve(f.M, f.J.T), f.at_end(free), scene.contacts.mu)
    return [free + np.linalg.solve(f.M, f.J.T @ G @ z) for z in enumerate_lcp(M, q)]


def found_in(scene, tau, **options):
    return all_outcomes(scene.robot, scene.state, scene.contacts, tau, DT, **options)


def near(v, velocities):
    return min(np.abs(v - other).max() for other in velocities) < 1e-6


@pytest.mark.parametrize(("n", "seeds"), fast([(1, range(20)), (2, range(12))], 1))
def test_all_bases_of_the_lcp_give_the_same_motions(n, seeds):
    several = 0
    for seed in seeds:
        scene = random_scene("solo12", seed, mu=10.0, touching=1.0, n=n)
        tau, force = predicted(scene).tau, np.zeros(scene.robot.nv)
        force[scene.robot.tree.a] = tau
        velocities, answer = motions_of(scene, force), found_in(scene, tau)
        assert answer.undecided == ""
        assert all(near(outcome.v_plus, velocities) for outcome in answer.found)
        assert all(near(v, [outcome.v_plus for outcome in answer.found]) for v in velocities)
        several += answer.unique is False
    assert several > 0


def test_every_outcome_obeys_the_law_and_none_of_a_random_search_is_missing():
    several, proved = 0, 0
    for seed in range(40):
        scene = touching(wild_scene(seed), (10.0, 0.5, np.inf, 0.0)[seed % 4] if seed % 5 else 10.0)
        f, c = full(scene.robot, scene.state, scene.contacts), scene.contacts
        if len(c) > 4:
            continue
        tau = predicted(scene).tau
        answer = found_in(scene, tau)
        assert answer.found
        for outcome in answer.found:
            assert dynamics(f, outcome.impulse, outcome.v_plus, tau, DT) < 1e-8
            assert coulomb_error(f, outcome.impulse, outcome.v_plus, c.mu, allowance(c.gaps, DT)) < 1e-6
        for other in outcomes(scene.robot, scene.state, c, tau, DT, samples=20):
            assert near(other.v_plus, [outcome.v_plus for outcome in answer.found])
        several, proved = several + (answer.unique is False), proved + (answer.unique is True)
    assert several > 2
    assert proved > 2


@pytest.mark.full
def test_a_prediction_says_whether_its_motion_is_the_only_one():
    options, seen = Options.paper(ground=scenes.LITERAL, outcomes=100), set()
    for seed in range(8):
        scene = random_scene("solo12", seed, mu=10.0, touching=1.0, n=2)
        applied = np.random.default_rng(seed).normal(size=scene.robot.nv)
        args, law = (scene.robot, scene.state, scene.contacts, scene.q_ddot), make_law("coulomb")
        answer = predict(*args, law=law, dt=DT, options=options, applied=applied)
        force = applied.copy()
        force[scene.robot.tree.a] += answer.tau
        others = [v for v in motions_of(scene, force) if np.abs(v - answer.v_plus).max() > 1e-6]
        assert answer.unique is (not others)
        assert all(near(v, answer.others) for v in others)
        assert all(near(v, others) for v in answer.others)
        seen.add(answer.unique)
    assert seen == {True, False}


def test_a_prediction_looks_for_other_motions_only_if_asked():
    scene = standing_scene("quadruped", mu=0.6)
    args, settings = (scene.robot, scene.state, scene.contacts, scene.q_ddot), {"law": make_law("coulomb"), "dt": DT}
    plain = predict(*args, **settings)
    assert (plain.unique, plain.others) == (None, ())
    asked = predict(*args, **settings, options=Options(outcomes=100))
    assert asked.unique is True
    assert np.array_equal(asked.tau, plain.tau)
    with pytest.raises(InputError, match=r"options\.outcomes"):
        predict(*args, **settings, options=Options(outcomes=-1))
    batch = Batch(state=scene.state, contacts=scene.contacts, q_ddot=scene.q_ddot[None])
    with pytest.raises(InputError, match=r"options\.outcomes: expected 0"):
        predict_batch(scene.robot, batch, **settings, options=Options(outcomes=100))


def on_the_base(mu, n=2):
    """A robot that touches the ground with n points of its base: J M⁻¹ Jᵀ is singular."""
    scene = standing_scene("quadruped", mu=mu)
    contacts = msgspec.structs.replace(scene.contacts, bodies=np.ones_like(scene.contacts.bodies), gaps=np.zeros(4))
    return msgspec.structs.replace(scene, contacts=contacts.take(np.arange(n)))


@pytest.mark.parametrize(("mu", "n"), [(0.0, 4), (0.5, 2), pytest.param(0.5, 3, marks=pytest.mark.full)])
def test_impulses_that_are_not_unique_may_give_a_unique_motion(mu, n):
    scene = on_the_base(mu, n)
    assert np.linalg.matrix_rank(full(scene.robot, scene.state, scene.contacts).J) < 3 * n
    answer = found_in(scene, np.zeros(scene.robot.na), budget=10_000)
    assert answer.unique is True
    contact_velocity = full(scene.robot, scene.state, scene.contacts).at_end(answer.found[0].v_plus)
    assert np.abs(contact_velocity[2::3]).max() < 1e-9


def test_beyond_the_budget_and_with_too_many_contacts_nothing_is_claimed():
    answer = found_in(on_the_base(0.5, 4), np.zeros(12), budget=5)
    assert answer.unique is None
    assert answer.undecided == "more than 5 combinations of modes are singular"
    scene = standing_scene("quadruped", mu=0.6)
    several = scene.contacts.join(scene.contacts)
    answer = all_outcomes(scene.robot, scene.state, several, predicted(scene).tau, DT)
    assert (answer.found, answer.unique) == ((), None)
    assert answer.undecided == "8 contacts have 1.0e+08 combinations of modes"
