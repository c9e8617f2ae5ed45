"""Accuracy and speed of the engine `first-order`: `idyn compare first-order-study`.

- The cube on its elastic foundation in the layout of [Drumwright Tables 1, 2], compared with a stiff implicit and an explicit
  method of `scipy`.
- Orders of accuracy of a pendulum, of a pendulum with a stop, and of the foundation.
- The coefficient of restitution of a stop.
- A block on a ramp with the friction of the engine and with that of the paper.

The foundation [Drumwright §5.5] is a bed of unilateral springs under the cube's lower face (Winkler): K = E a / depth, each
with a damper B. The force F points down and acts at (s/2) (cos 10 t, sin 10 t, 1) in the cube's frame. With 5 N all springs
remain loaded, with 50 N an edge lifts off.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from idyn.types import Array, Record
from sim_harness.engines.engine import Engine, ForwardProblem, ForwardSolution, Rows
from sim_harness.engines.first_order import FirstOrder
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table
from sim_harness.studies.first_order_published import Published
from sim_harness.studies.study import Figures, Picture, Study, Sweep, crossed

BOB_INERTIA = 1 / 12
"""Moment of inertia of the pendulum's bob about its centre; its mass is 1 kg, its arm 1 m [kg·m²]."""

RAMP_GRAVITY, RAMP, RAMP_DT, RAMP_K, RAMP_HB = 9.8, np.deg2rad(15), 0.01, 1e10, 1e6
"""Gravity [m/s²], inclination [rad], time step [s], contact stiffness [N/m] and dt B_t [kg] of the ramp  [Drumwright §6.4]."""

EMPTY = ForwardProblem(
    M=np.eye(1), h=np.zeros(1), v=np.zeros(1), J=np.zeros((0, 1)), force=np.zeros(1), mu=np.zeros(0), gaps=np.zeros(0), dt=1e-3
)
"""Forward problem of one degree of freedom without contacts and rows; other problems replace its fields."""


class Motion(NamedTuple):
    """State after a step, and forces during the step: of the rows (b), or of the contact (3) [N, N·m]."""

    q: Array
    v: Array
    forces: Array


def springs(G: Array, g: Array, K: float, B: float, stop: bool) -> Rows:
    """Return compliant rows G, g with K [N/m, N·m/rad] and B [N·s/m, N·m·s/rad]. stop: whether they are unilateral"""
    n = len(g)
    return Rows(G=G, g=g, stops=np.full(n, stop), compliance=np.full(n, 1 / K), dissipation=np.full(n, B / K))


def simulated(
    engine: FirstOrder, q: Array, v: Array, dt: float, steps: int, problem: Callable[[Array, Array], ForwardProblem]
) -> Iterator[Motion]:
    """Simulate from q, v and yield the motion after each step. problem: of a step from q, v. RuntimeError: not solved"""
    for _ in range(steps):
        solution = engine.solve(problem(q, v))
        if not solution.status.ok:
            raise RuntimeError(solution.status.sentence)
        v = solution.v_plus
        q = q + dt * v
        yield Motion(q, v, (solution.p[0] if solution.rows is None else solution.rows) / dt)


def pendulum(dt: float, seconds: float = 1.0, K: float = 1e15, B: float = 1.0) -> Motion:
    """Simulate a pendulum, horizontal at first; two rows tie its bob (x, y, angle) to its pivot  [Drumwright §4.4]."""

    def problem(q: Array, v: Array) -> ForwardProblem:
        c, s = np.cos(q[2]), np.sin(q[2])
        rows = springs(np.array([[1.0, 0.0, s], [0.0, 1.0, -c]]), q[:2] - np.array([c, s]), K, B, stop=False)
        return msgspec.structs.replace(
            EMPTY, M=M, h=np.array([0.0, GRAVITY, 0.0]), v=v, J=np.zeros((0, 3)), force=np.zeros(3), dt=dt, rows=rows
        )

    M = np.diag([1.0, 1.0, BOB_INERTIA])
    *_, end = simulated(FirstOrder(), np.array([1.0, 0.0, 0.0]), np.zeros(3), dt, round(seconds / dt), problem)
    return end


def exact_pendulum(seconds: float = 1.0) -> Motion:
    """Return the exact final motion of `pendulum` with rigid rows, from the equation of its angle."""
    pull = GRAVITY / (1.0 + BOB_INERTIA)
    found = solve_ivp(lambda _, y: [y[1], -pull * np.cos(y[0])], (0, seconds), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12)
    a, w = found.y[:, -1]
    c, s, turn = np.cos(a), np.sin(a), -pull * np.cos(a)
    speed = w * np.array([-s, c, 1.0])
    forces = np.array([-s * turn - c * w * w, c * turn - s * w * w + GRAVITY])
    return Motion(np.array([c, s, a]), speed, forces)


def on_a_stop(q: Array, v: Array, dt: float, K: float, B: float, pull: float) -> ForwardProblem:
    """Return the forward problem of a joint of 1 kg·m² with a stop at 0. pull: torque of gravity at 90° [N·m]"""
    return msgspec.structs.replace(EMPTY, h=pull * np.sin(q), v=v, dt=dt, rows=springs(np.eye(1), q, K, B, stop=True))


def limited_pendulum(dt: float, seconds: float, K: float, B: float) -> Motion:
    """Simulate a mass of 1 kg at 1 m from its joint that falls from θ = π/2 onto a stop at θ = 0  [Drumwright §5.4]."""
    steps, start = round(seconds / dt), np.array([np.pi / 2])
    *_, end = simulated(FirstOrder(), start, np.zeros(1), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, B, GRAVITY))
    return end


def exact_limited_pendulum(seconds: float, K: float, B: float) -> Motion:
    """Return the exact final motion of `limited_pendulum`, integrated between the times at which contact begins and ends.
    The stop presses with max(0, −K θ − B θ̇)."""
    y, t = np.array([np.pi / 2, 0.0]), 0.0
    presses = False

    def load(y: Array) -> float:
        return -K * y[0] - B * y[1]

    def meets(_: float, y: Array) -> float:
        return load(y) if presses else -load(y)

    meets.terminal, meets.direction = True, -1  # type: ignore[attr-defined]
    while t < seconds:
        pushed = presses  # constant until the next event

        def motion(_: float, y: Array, pushed: bool = pushed) -> list[float]:
            return [y[1], -GRAVITY * np.sin(y[0]) + (load(y) if pushed else 0.0)]

        found = solve_ivp(motion, (t, seconds), y, "DOP853", rtol=1e-11, atol=1e-13, events=meets)
        t, y, presses = float(found.t[-1]), found.y[:, -1], not presses
    return Motion(y[:1], y[1:], np.array([max(0.0, load(y))]))


def restitution(dt: float, share: float, K: float = 1e12, speed: float = 4.429) -> float:
    """Return the coefficient of restitution of a joint of 1 kg·m² at its stop: (speed after impact) / (speed before it).

    share: initial distance from the stop, as a multiple of speed · dt; speed: before the impact [rad/s]
    """
    steps, begin, v = round(8.0 / np.sqrt(K) / dt) + 4, np.array([share * dt * speed]), 0.0
    for end in simulated(FirstOrder(), begin, np.array([-speed]), dt, steps, lambda q, v: on_a_stop(q, v, dt, K, 1e-9, 0.0)):
        v = float(end.v[0])
        if v > 0.0 and end.q[0] > 0.0:
            break
    return max(v, 0.0) / speed


def ramp(mu: float, engine: FirstOrder, seconds: float = 1.0) -> Motion:
    """Simulate 1 kg on a ramp of 15° from rest  [Drumwright §6.4].

    q: position along and above the ramp [m]; forces: of the first step along s, t, n [N]
    """
    engine = msgspec.structs.replace(engine, stiffness=RAMP_K, dissipation=1 / RAMP_K, tangential=RAMP_HB / RAMP_DT)
    weight, J = RAMP_GRAVITY * np.array([-np.sin(RAMP), np.cos(RAMP)]), np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])

    def problem(q: Array, v: Array) -> ForwardProblem:
        force, gaps = np.zeros(2), q[1:].copy()
        return ForwardProblem(M=np.eye(2), h=weight, v=v, J=J, force=force, mu=np.array([mu]), gaps=gaps, dt=RAMP_DT)

    start, steps = np.array([0.0, -weight[1] / RAMP_K]), round(seconds / RAMP_DT)
    first, *_, end = simulated(engine, start, np.zeros(2), RAMP_DT, steps, problem)
    return end._replace(forces=first.forces)


def exact_ramp(mu: float, seconds: float = 1.0) -> float:
    """Return the exact distance that the block of `ramp` slides [m]."""
    return max(0.0, 0.5 * RAMP_GRAVITY * (np.sin(RAMP) - mu * np.cos(RAMP)) * seconds**2)


SIDE, DENSITY, DEPTH, DAMPER, TURN, GRAVITY = 1.0, 8.0, 1.0, 1.0, 10.0, 9.81
"""Side s [m], density [kg/m³], depth of the bed [m], B of each element [N·s/m], angular speed of the load [rad/s], g [m/s²]."""

MASS, INERTIA = DENSITY * SIDE**3, DENSITY * SIDE**5 / 6
"""Mass of the cube [kg], and its moment of inertia about any axis [kg·m²]."""


class Bed(NamedTuple):
    """The foundation and its load. points: of the elements, in the cube's frame [m] (n, 3); K: of each [N/m]; force: F [N]"""

    points: Array
    K: float
    force: float


def bed(per_side: int, modulus: float, force: float) -> Bed:
    """Return a foundation with per_side² elements. modulus: E [N/m²]; force: F [N]"""
    at = SIDE * ((np.arange(per_side) + 0.5) / per_side - 0.5)
    points = np.array([(x, y, -0.5 * SIDE) for x in at for y in at])
    return Bed(points, modulus * (SIDE / per_side) ** 2 / DEPTH, force)


class Pose(Record, frozen=True):
    """State of the cube. q: position [m], unit quaternion xyzw (7); v: linear and angular, in world axes [m/s, rad/s] (6)"""

    q: Array
    v: Array

    @property
    def tilt(self) -> float:
        """Angle of the cube's z axis from the vertical [rad]."""
        up = Rotation.from_quat(self.q[3:]).as_matrix()[:, 2]
        return float(np.arctan2(np.hypot(up[0], up[1]), up[2]))


START = Pose(q=np.array([0.0, 0.0, 0.5 * SIDE, 0.0, 0.0, 0.0, 1.0]), v=np.zeros(6))
"""Initial state: at rest on the undeformed bed."""


def turned(quaternion: Array, points: Array) -> Array:
    """Return R p for each point p (n, 3), with R of a unit quaternion xyzw."""
    x, y, z, w = quaternion
    out = np.empty_like(points)
    for i in range(len(points)):
        a, b, c = points[i]
        # R p = p + 2 x × (x × p + w p), x the vector part of the quaternion
        s, t, u = y * c - z * b + w * a, z * a - x * c + w * b, x * b - y * a + w * c
        out[i, 0], out[i, 1], out[i, 2] = a + 2 * (y * u - z * t), b + 2 * (z * s - x * u), c + 2 * (x * t - y * s)
    return out


def wrench(quaternion: Array, force: float, t: float) -> Array:
    """Return force [N] and torque about the centre [N·m] of weight and F, in world axes (6)."""
    arm = turned(quaternion, 0.5 * SIDE * np.array([[np.cos(TURN * t), np.sin(TURN * t), 1.0]]))
    return np.array([0.0, 0.0, -MASS * GRAVITY - force, -arm[0, 1] * force, arm[0, 0] * force, 0.0])


def derivative(t: float, state: Array, points: Array, K: float, B: float, force: float) -> Array:
    """Return d/dt of pose and velocity (13)."""
    q, v, w = state[3:7], state[7:10], state[10:13]
    arms, load = turned(q, points), wrench(q, force, t)
    # elements: f = max(0, −K φ − B φ̇) with the deformation φ of the element
    for i in range(len(points)):
        x, y, z = arms[i]
        speed = v[2] + w[0] * y - w[1] * x
        press = -K * (state[2] + z) - B * speed
        if press > 0.0:
            load[2] += press
            load[3] += press * y
            load[4] -= press * x
    out = np.empty(13)
    out[:3] = v
    # quaternion: q̇ = ½ (ω, 0) q
    a, b, c, d = q
    out[3] = 0.5 * (w[0] * d + w[1] * c - w[2] * b)
    out[4] = 0.5 * (w[1] * d + w[2] * a - w[0] * c)
    out[5] = 0.5 * (w[2] * d + w[0] * b - w[1] * a)
    out[6] = -0.5 * (w[0] * a + w[1] * b + w[2] * c)
    out[7:10] = load[:3] / MASS
    out[10:13] = load[3:] / INERTIA
    return out


def integrated(on: Bed, method: str, seconds: float, rtol: float, atol: float) -> tuple[Pose, int]:
    """Integrate the differential equation with a method of `scipy.integrate`; return (final state, number of evaluations).

    Raises RuntimeError if the method fails.
    """
    start, given = np.concatenate([START.q, START.v]), (on.points, on.K, DAMPER, on.force)
    found = solve_ivp(derivative, (0.0, seconds), start, method, args=given, rtol=rtol, atol=atol, t_eval=[seconds])
    if not found.success:
        raise RuntimeError(f"{method}: {found.message}")
    q = found.y[:7, -1]
    q[3:] /= np.linalg.norm(q[3:])
    return Pose(q=q, v=found.y[7:, -1]), int(found.nfev)


def bed_problem(on: Bed, pose: Pose, t: float, dt: float) -> ForwardProblem:
    """Return the forward problem of the step that begins at t. Elements are contacts with zero tangential rows and μ = 0."""
    arms, n = turned(pose.q[3:], on.points), len(on.points)
    J = np.zeros((3 * n, 6))
    J[2::3, 2], J[2::3, 3], J[2::3, 4] = 1.0, arms[:, 1], -arms[:, 0]
    return ForwardProblem(
        M=np.diag([MASS] * 3 + [INERTIA] * 3),
        h=np.zeros(6),
        v=pose.v,
        J=J,
        force=wrench(pose.q[3:], on.force, t),
        mu=np.zeros(n),
        gaps=pose.q[2] + arms[:, 2],
        dt=dt,
        stiffness=np.full(n, on.K),
        dissipation=np.full(n, DAMPER / on.K),
    )


def stepped(engine: Engine, on: Bed, dt: float, seconds: float) -> tuple[Pose, ForwardSolution, int]:
    """Simulate with an engine; return (final state, solution of the last step, fewest elements that pressed in a step).

    Raises RuntimeError if a step is not solved.
    """
    pose, pressed = START, len(on.points)
    for k in range(round(seconds / dt)):
        solution = engine.solve(bed_problem(on, pose, k * dt, dt))
        if not solution.status.ok:
            raise RuntimeError(f"at {k * dt:.4g} s: {solution.status.sentence}")
        pressed = min(pressed, int(np.count_nonzero(solution.p[:, 2] > 0.0)))
        v = solution.v_plus
        q = pose.q.copy()
        q[:3] += dt * v[:3]
        q[3:] = (Rotation.from_rotvec(dt * v[3:]) * Rotation.from_quat(q[3:])).as_quat()
        pose = Pose(q=q, v=v)
    return pose, solution, pressed


def distance(a: Pose, b: Pose) -> float:
    """Return the norm of the difference of two poses: of position [m] and quaternion together, where −q counts as q."""
    sign = 1.0 if a.q[3:] @ b.q[3:] >= 0.0 else -1.0
    return float(np.hypot(np.linalg.norm(a.q[:3] - b.q[:3]), np.linalg.norm(a.q[3:] - sign * b.q[3:])))


DT, FINE_DT = 0.01, 0.001
"""Time steps of the foundation [s]."""

PAPERS = {
    (10, 1e7, 5.0): ((0.331, 0.302, 28.0), 2.96e-5),
    (10, 1e11, 5.0): ((0.286, 0.189, 27.4), 2.91e-7),
    (10, 1e7, 50.0): ((0.332, 9.55, 15.5), 0.813),
    (10, 1e11, 50.0): ((0.396, 5550.0, 621.0), 0.814),
    (30, 1e7, 5.0): ((7.40, 4.75, 829.0), 1.98e-5),
    (30, 1e11, 5.0): ((8.23, 1.10, 17100.0), 2.71e-9),
    (30, 1e7, 50.0): ((12.98, 27.3, 346.0), 1.0e-2),
    (30, 1e11, 50.0): ((26.00, 2.31, 17400.0), 1.0e-2),
}
"""(elements per side, E [N/m²], F [N]) → (run times, error) of [Drumwright Tables 1, 2]. Run times [s] for 1 s: of the paper's
solver, ode15s of first order, ode45; error: of the paper's solver."""

CELLS = list(PAPERS)

SOFT_S, STIFF_S = 1.0, 0.1
"""Simulated time of the methods of scipy at E = 1e7 and at 1e11 N/m² [s]. At 1e11 N/m², with an edge that lifts off, the
reference would need a quarter of an hour for 1 s."""

ROUGH, TIGHT = (1e-3, 1e-6), {1e7: (1e-9, 1e-12), 1e11: (1e-7, 1e-12)}
"""Relative and absolute tolerances of scipy's methods (the defaults of scipy and MATLAB), and of the reference, by E."""

STEPS, STOP_K, STOP_B = (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4), 1e4, 10.0
"""Time steps for the orders of accuracy [s]; stiffness [N·m/rad] and damping [N·m·s/rad] of the stop, which they resolve."""

SHARES = {f"met {share:g} of a step away": share for share in (0.0, 0.25, 0.5, 0.75)}
"""Label → initial distance from the stop, as a multiple of the distance travelled in a time step."""

STOP_STEPS = {f"{dt:g} s": dt for dt in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8)}
"""Label → time step for the restitution [s]."""

FRICTIONS = {
    "cone": FirstOrder(),
    "published, ζ = 1/dt": Published(),
    "published, ζ = 100 (1 + dt B)²": Published(normal_weight=100 * (1 + RAMP_HB) ** 2),
}
"""Label → engine for the block: `first-order`; the paper's with the published weight ζ, and with a suitable ζ."""

METHODS = ("first-order", "BDF", "RK45")


class Cell(Record, frozen=True):
    """Figures of one foundation."""

    seconds: dict[str, float]  # method → run time in seconds per simulated second
    errors: dict[str, float]  # method → norm of the difference of position [m] and quaternion from the reference
    pressed: int  # number of elements that pressed, in the step with the fewest of them


def cell(per_side: int, modulus: float, force: float) -> Cell:
    """Measure engine, reference and scipy's methods on one foundation. modulus: E [N/m²]; force: F [N]"""
    on, engine = bed(per_side, modulus, force), FirstOrder()
    stepped(engine, on, DT, DT)
    begin = time.perf_counter()
    _, _, pressed = stepped(engine, on, DT, 1.0)
    seconds = {"first-order": time.perf_counter() - begin}
    end = _end(modulus)
    exact, _ = integrated(on, "DOP853", end, *TIGHT[modulus])
    errors = {}
    for name, dt in (("first-order", DT), ("1 ms", FINE_DT)):
        errors[name] = distance(stepped(engine, on, dt, end)[0], exact)
    for method in METHODS[1:]:
        begin = time.perf_counter()
        pose, _ = integrated(on, method, end, *ROUGH)
        seconds[method] = (time.perf_counter() - begin) / end
        errors[method] = distance(pose, exact)
    return Cell(seconds=seconds, errors=errors, pressed=pressed)


def _end(modulus: float) -> float:
    """Return the simulated time for scipy's methods [s]."""
    return SOFT_S if modulus < 1e9 else STIFF_S


Line = list[tuple[float, float]]
"""Pairs of time step [s] and error [SI units]."""


def systems() -> dict[str, tuple[float, Callable[[float], float]]]:
    """Return name → (factor on `STEPS`, function) of each system.

    The function takes a time step and returns the error of q or, for some systems, of the forces.
    """
    rigid, stop = exact_pendulum(), float(exact_limited_pendulum(1.0, STOP_K, STOP_B).q[0])
    on, engine = bed(10, 1e3, 5.0), FirstOrder()
    exact, _ = integrated(on, "DOP853", 1.0, 1e-11, 1e-13)
    return {
        "pendulum, q": (1.0, lambda dt: float(np.linalg.norm(pendulum(dt).q - rigid.q))),
        "pendulum, λ": (1.0, lambda dt: float(np.linalg.norm(pendulum(dt).forces - rigid.forces))),
        "pendulum that meets a stop, q": (0.125, lambda dt: abs(float(limited_pendulum(dt, 1.0, STOP_K, STOP_B).q[0]) - stop)),
        "foundation, E = 1e3 N/m², q": (1.0, lambda dt: distance(stepped(engine, on, dt, 1.0)[0], exact)),
    }


def order(line: Line) -> float:
    """Return the order of convergence of the last two time steps."""
    (a, before), (b, after) = line[-2:]
    return float(np.log(before / after) / np.log(a / b))


def time_table(cells: list[Cell]) -> Table:
    """Return run times in the layout of [Drumwright Table 1], the paper's in brackets."""
    body = []
    for ((per_side, modulus, force), (papers, _)), found in zip(PAPERS.items(), cells, strict=True):
        times = (f"{found.seconds[name]:.3g} ({paper:g})" for name, paper in zip(METHODS, papers, strict=True))
        body.append([f"{per_side**2} elements, {force:g} N", f"{modulus:g}", *times, f"{found.pressed} of {per_side**2}"])
    return [["seconds for 1 s", "E [N/m²]", "first-order, 10 ms", "BDF", "RK45", "elements that pressed"], *body]


def error_table(cells: list[Cell]) -> Table:
    """Return errors in the layout of [Drumwright Table 2], the paper's in brackets."""
    body = []
    for ((per_side, modulus, force), (_, paper)), found in zip(PAPERS.items(), cells, strict=True):
        own, *others = (f"{found.errors[name]:.2e}" for name in ("first-order", "1 ms", "BDF", "RK45"))
        where = [f"{per_side**2} elements, {force:g} N", f"{modulus:g}", f"{_end(modulus):g}"]
        body.append([*where, f"{own} ({paper:.2e})", *others])
    return [["error", "E [N/m²]", "at [s]", "first-order, 10 ms", "first-order, 1 ms", "BDF", "RK45"], *body]


def order_table(found: Figures) -> Table:
    """Return a table of errors with the largest and the smallest time step, and orders of convergence."""
    body = []
    for name, line in found["orders"].items():
        ends = (text for dt, error in (line[0], line[-1]) for text in (f"{1e3 * dt:g}", f"{error:.2e}"))
        body.append([name, *ends, f"{order(line):.2f}"])
    return [["error of", "largest step [ms]", "error", "smallest step [ms]", "error", "order"], *body]


def restitution_table(found: Figures) -> Table:
    """Return a table of coefficients of restitution, for K = 1e12 N·m/rad, 1 kg·m² and B ≈ 0, so that ω = 1e6/s."""
    head, *body = crossed("stop, restitution", found["restitution"], "{:.4f}".format)
    expected = (f"{np.exp(-np.pi * dt * 1e6 / 2):.4f}" for dt in STOP_STEPS.values())
    return [[head[0], "exp(−π dt ω / 2)", *head[1:]], *([row[0], e, *row[1:]] for row, e in zip(body, expected, strict=True))]


def ramp_table(found: Figures) -> Table:
    """Return a table of the block's displacement, its exact value, the height, and the first normal force."""
    body = []
    for (mu, name), end in found["ramp"].items():
        slid, exact = f"{end.q[0]:.4f}", f"{exact_ramp(float(mu)):.4f}"
        body.append([mu, name, slid, exact, f"{1e3 * end.q[1]:.3g}", f"{end.forces[2]:.2f}"])
    return [["ramp, μ", "friction", "displacement in 1 s [m]", "exact [m]", "above the ramp [mm]", "first N [N]"], *body]


def speed_picture(found: Figures) -> bytes:
    """Draw orders of accuracy, and run times of the foundation."""
    lines = {f"{name}: {order(line):.2f}": (*zip(*line, strict=True), "o-") for name, line in found["orders"].items()}
    lines["order 1"] = (STEPS, STEPS, "k:")
    times = {method: [each.seconds[method] for each in found["foundation"].values()] for method in METHODS}
    ticks = {f"{n * n}\n{E:.0e}\n{F:g} N": k for k, (n, E, F) in enumerate(CELLS)}
    panels = [
        Plot(lines=lines, log="xy", legend=True, axes={"xlabel": "dt [s]", "ylabel": "error after 1 s [m, rad, N]"}),
        Plot(bars=times, ticks=ticks, log="y", legend=True, axes={"ylabel": "seconds for 1 s"}),
    ]
    return picture(panels, across=2, size=(12, 4.5), share=False)


def study() -> Study:
    """Return the study of the engine `first-order`."""
    cells = {f"{n * n} elements, {E:g} N/m², {F:g} N": (n, E, F) for n, E, F in CELLS}
    return Study(
        "The engine first-order",
        "A cube on an elastic foundation, compared with two methods for differential equations; the paper's numbers are in "
        "brackets. Orders of accuracy. Restitution of a stop. A block on a ramp with the engine's and the paper's friction.",
        sweeps={
            "foundation": Sweep((cells,), lambda point: cell(*point)),
            "orders": Sweep((systems(),), lambda system: [(system[0] * dt, system[1](system[0] * dt)) for dt in STEPS]),
            "restitution": Sweep((STOP_STEPS, SHARES), restitution),
            "ramp": Sweep(({f"{mu:g}": mu for mu in (0.0, 0.125, 0.25, 0.375)}, FRICTIONS), ramp),
        },
        tables=(
            lambda found: time_table([*found["foundation"].values()]),
            lambda found: error_table([*found["foundation"].values()]),
            order_table,
            restitution_table,
            ramp_table,
        ),
        pictures=(
            Picture("orders", "Errors over the time step with their orders; run times of the foundation.", speed_picture),
        ),
    )
