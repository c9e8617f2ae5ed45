"""Types of the stages. Each type holds the results of one stage; only the stage named in its docstring writes it.

    stage            function                       from                        to               file
    validate         read_given                     State, ContactSet           Given            idyn/terms/inputs.py
    dynamics         build_dynamics                 Given                       Dynamics         idyn/terms/dynamics.py
    feasible demand  nearest_demand                 Dynamics, demand            demand           idyn/prediction/feasible.py
    reduced problem  reduce_problem                 Dynamics, demand            ReducedProblem   idyn/terms/reduction.py
    law              attempt (the law's kernel)     ReducedProblem              impulses, face   idyn/laws/
    selection        choose_among_few, …thoroughly  ReducedProblem, face        impulses         idyn/selection/
    torque           recover                        ReducedProblem, impulses    v⁺, τ, λ         idyn/terms/reduction.py
    certificate      certify                        Given, v⁺, τ, impulses      residuals        idyn/certificate/certify.py

Their inputs are kinematics (`idyn.types.Kinematics`, by `Robot.terms`) and contacts (`ContactSet`, `idyn/contact/`).
`idyn/prediction/solve.py` runs the stages in this order. A record owns its arrays; compiled code fills them, and their contents
are valid until the stage runs again. In Python the arrays are read-only views.
"""

import numpy as np

from idyn.contact.ground import Ground
from idyn.library.records import ArrayRecord, Cube, Indices, Mask, Matrix, Spans, Vector
from idyn.model.robot import Robot


class Model(ArrayRecord):
    """Constants of a robot, written by the constructor. For those without a comment see `idyn.model.tree.Tree`."""

    read_only = True

    parents: Indices
    dof_joint: Indices
    u: Indices
    a: Indices
    support: Mask
    unit_spans: Spans
    loops: Spans  # joints of the closures (m, 2)
    tau_max: Vector  # torque limits [N·m] (na)
    nq: int  # size of q

    def __init__(self, robot: Robot) -> None:
        tree = robot.tree
        self.put(parents=tree.parents, dof_joint=tree.dof_joint, u=tree.u, a=tree.a, support=tree.support)
        self.put(unit_spans=tree.unit_spans, loops=robot.closures.joints, tau_max=robot.limits.tau_max, nq=robot.nq)


class Given(ArrayRecord):
    """Validated copies of the inputs: state, Pinocchio's terms, contacts, period. Written by `read_given`; the ground model by
    `set_ground` and `set_memory`. The certificate uses no other part of a problem.

    v (nv), M (nv, nv), axes (nv, 6): see `idyn.types.DynamicsTerms`; own_…: views of the robot's buffers, which Pinocchio fills
    bodies, others, points, normals, tangents, mu, gaps, radii: see `idyn.types.ContactSet`
    dt [s]; noise, recovery_speed, touching, independent: see `idyn.contact.ground.Ground`
    axes, ends and points are about the robot's `origin`, which is not the world's if the base is far from that.
    """

    read_only = True

    model: Model
    own_M: Matrix
    own_h: Vector
    own_axes: Matrix
    own_ends: Cube
    own_origin: Vector
    v: Vector
    M: Matrix
    h: Vector  # h of `DynamicsTerms` minus the applied force (nv)
    axes: Matrix
    ends: Cube  # points of the closures in the world [m] (m, 2, 3)
    bodies: Indices
    others: Indices
    points: Matrix
    normals: Matrix
    tangents: Matrix
    mu: Vector
    gaps: Vector
    radii: Vector
    # p⁻, impulses of the last tick in rows S, T, N of the present contact frames, zero for new contacts [N·s] (3n)
    last: Vector
    dt: float
    noise: float
    recovery_speed: float
    touching: float
    independent: float
    keep: float  # 1 − dt/T_r, share of the velocity of a contact that may remain after dt
    rho: float  # ρ = T_p/dt
    remembers: bool  # whether there is a last tick, whose impulses p⁻ are used
    # whether points are moved halfway to the other body, where MuJoCo has them; written by the callers of `read_given`
    midway: bool
    drift: bool  # whether the ground model includes the drift of closures, and that of contacts unless the law leaves it out
    contact_drift: bool  # whether that of contacts is included; written by the callers of `read_given`
    dependent: bool  # whether contact rows may depend on each other, so that their drift may contradict the mechanism
    q: Vector  # configuration (nq)
    ticks: int  # changes with each call of `read_given`, and with the ground model
    slope: Matrix  # ∂h/∂v, for the law `mujoco` with the integrator `implicit`; undefined otherwise (nv, nv)
    own_slope: Matrix
    # contact rows of the C interface, where joint axes are not known; empty: J and J̇ v follow from axes and points. The frames
    # of the contacts are then those of the rows, s = x, t = y, n = z
    rows: Matrix  # J (3n, nv)
    rows_dot_v: Vector  # J̇ v [m/s²] (3n)

    def __init__(self, robot: Robot, n: int) -> None:
        """Allocate arrays for n contacts."""
        nv, m, own = robot.nv, len(robot.closures.keys), robot.own_terms
        self.put(model=Model(robot), own_M=own.M.T, own_h=own.h, own_axes=own.axes, own_ends=robot.own_ends)
        self.put(v=np.zeros(nv), M=np.zeros((nv, nv)), h=np.zeros(nv), axes=np.zeros((nv, 6)))
        self.put(ends=np.zeros((m, 2, 3)), q=np.zeros(robot.nq), own_origin=robot.origin)
        self.put(bodies=np.zeros(n, np.int64), others=np.zeros(n, np.int64), mu=np.zeros(n), gaps=np.zeros(n))
        self.put(radii=np.zeros(n), contact_drift=False, dependent=False)
        self.put(points=np.zeros((n, 3)), normals=np.zeros((n, 3)), tangents=np.zeros((n, 3)), last=np.zeros(3 * n))
        self.put(midway=False, slope=np.zeros((nv, nv)), own_slope=robot.own_slope)
        self.put(rows=np.zeros((0, nv)), rows_dot_v=np.zeros(0))

    def set_ground(self, ground: Ground, dt: float) -> None:
        """Set the parameters of the ground model for the period dt [s], except ρ."""
        self.put(noise=ground.noise, recovery_speed=ground.recovery_speed, touching=ground.touching)
        self.put(independent=ground.independent, keep=ground.keeps(dt), dt=dt, drift=ground.drift, ticks=self.ticks + 1)

    def set_memory(self, ground: Ground, dt: float, remembers: bool) -> None:
        """Set ρ = T_p/dt of the ground model. remembers: whether there is a last tick with contact impulses; otherwise ρ = 0"""
        self.put(rho=ground.memory / dt if remembers else 0.0, remembers=remembers, ticks=self.ticks + 1)


class Dynamics(ArrayRecord):
    """Jacobians of M (v⁺ − v) = Jᵀ p + Gᵀ λ + dt (Pᵀ τ − h),  G v⁺ = −rate. Written by `idyn.terms.dynamics.build_dynamics`."""

    read_only = True

    given: Given
    J: Matrix  # contact Jacobian, rows S, T, N for each contact on the relative velocity of its two bodies (3n, nv)
    drift: Vector  # dt J̇ v, by which the motion of the robot changes J v within the period, see `idyn.terms.drift` [m/s] (3n)
    G: Matrix  # of the m closures, see `idyn.terms.reduction` (3m, nv)
    rate: Vector  # of the closures, contains dt Ġ v [m/s] (3m)

    def __init__(self, robot: Robot, n: int) -> None:
        """Allocate arrays for n contacts."""
        m = len(robot.closures.keys)
        self.put(given=Given(robot, n), J=np.zeros((3 * n, robot.nv)), drift=np.zeros(3 * n))
        self.put(G=np.zeros((3 * m, robot.nv)), rate=np.zeros(3 * m))


class ReducedProblem(ArrayRecord):
    """The contact problem in the unactuated space, û = D p + b with D = Y Yᵀ. Written by `idyn.terms.reduction.reduce_problem`.

    The law applies to the contact velocity û = J v̂ + dt J̇ v, see `idyn.contact.ground`; on rigid ground v̂ = v⁺. Loads and
    moments are those under the law `mujoco`, written by its kernel.
    """

    read_only = True

    dynamics: Dynamics
    q_ddot: Vector  # demanded joint accelerations [rad/s²] (na)
    L: Matrix  # Cholesky factor of M_uu (nu, nu)
    v_free: Vector  # v⁺ without contact impulses, v_u⁰ and the prescribed v_a⁺ (nv)
    # generalised forces of friction, damping and limits of the joints and of contact moments; 0 under other laws [N·m] (nv)
    load: Vector
    # contact moments over dt about s, t, n, if there is friction against turning; undefined otherwise [N·m·s] (3n)
    moments: Vector
    Y: Matrix  # √(1 + T_p/dt) J_u L⁻ᵀ (3n, nu)
    b: Vector  # û without contact impulses, with the allowance φ/dt added on the N rows and the drift on all [m/s] (3n)
    energy: Vector  # gradient at p = 0 of the kinetic energy of v̂, J_u (v̂_u + M_uu⁻¹ M_ua v̂_a) [m/s] (3n)
    bound: Matrix  # J̃ (3n, nv), the array of J itself without closures
    C: Matrix  # see `idyn.terms.reduction` (3n, 3m)
    closing_free: Vector  # λ₀ (3m)

    def __init__(self, robot: Robot, n: int) -> None:
        """Allocate arrays for n contacts."""
        dynamics, nv, nu, m = Dynamics(robot, n), robot.nv, robot.nu, len(robot.closures.keys)
        bound = np.zeros((3 * n, nv)) if m else dynamics.own["J"]
        self.put(dynamics=dynamics, q_ddot=np.zeros(robot.na), L=np.zeros((nu, nu)), v_free=np.zeros(nv), load=np.zeros(nv))
        self.put(Y=np.zeros((3 * n, nu)), b=np.zeros(3 * n), energy=np.zeros(3 * n), moments=np.zeros(3 * n))
        self.put(bound=bound, C=np.zeros((3 * n, 3 * m)), closing_free=np.zeros(3 * m))
