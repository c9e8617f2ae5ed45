"""The robot: a model with indices, contact places and limits, and its dynamics terms by Pinocchio."""

import hashlib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pinocchio as pin

from idyn.errors import FrameNotFound, InputError, ModelError
from idyn.model import tree
from idyn.model.build import Finding, build_model, check_mass_matrix, inspect_limits, inspect_urdf, read_text
from idyn.model.description import Description
from idyn.model.frames import FAR, Frames, nearby, wheel_frames
from idyn.model.mjcf import Reading, is_mjcf
from idyn.model.urdf import base_of, parse_urdf, with_declared_prefixes, with_own_base
from idyn.types import Array, DynamicsTerms, Kinematics, State

WORLD = pin.Convention.WORLD  # with this convention `pin.crba` computes the joint axes in world coordinates
STANDARD_GRAVITY = 9.81  # of the Earth [m/s²]


class Robot:
    """A robot model with actuated and unactuated degrees of freedom, contact places and limits.

    description: what it was built from, armature by name; one_axis_each: every actuated joint has one axis
    name: of the model; urdf_sha256: hash of the URDF text; total_mass [kg], weight [N]: without gravity that on Earth, a scale
    nq, nv: sizes of q and v; na, nu: numbers of actuated and unactuated velocities (na + nu = nv)
    joint_names: names of the actuated degrees of freedom in model order, see `Description` (na)
    tree, bodies, limits, stops, spheres, boxes, closures: see the modules `tree`, `places` and `closures` of `idyn.model`
    wheel_frames: frames on the axis of a joint that turns without limits, without contact places; floating: the base floats
    weighs_base: it floats and has no rotors, so that the first rows of M are those of momentum
    contact_names: keys of all contacts that geometry may find: those of spheres, then those of pairs of sphere and box
    frames: kinematics of frames, centre of mass and momentum, see `idyn.model.frames`
    origin: about which the buffers hold axes and ends: the world's, or the base's position if that is far from it [m] (3)
    far: whether it is
    current: result of the last call of `terms`, whose arrays the buffers still hold; None: they hold those of another state
    scratch: workspaces (preallocated solver buffers) that other modules store with the robot (`idyn.prediction.solve`)

    A robot has one `pin.Data`: do not use it in several threads at the same time, see `twin`.
    """

    def __init__(self, description: Description, source: str = "URDF text") -> None:
        """Build the robot. source: origin of the URDF text, for messages

        Raises ModelError for an invalid URDF, FrameNotFound for unknown frames, InputError for other invalid fields.
        """
        self._model = model = build_model(description, source)
        self.name: str = model.name
        self.urdf_sha256 = hashlib.sha256(description.urdf.encode()).hexdigest()
        self.floating = description.base == "free_flyer"
        self.tree = tree.read_tree(model, description)
        self.joint_names = tuple(self.tree.dof_names[k] for k in self.tree.a.tolist())
        self.nq: int = model.nq
        self.nv: int = model.nv
        self.na, self.nu = len(self.tree.a), len(self.tree.u)
        self.limits, self.stops = tree.read_limits(model, self.tree, description), tree.read_stops(model, self.tree)
        armature = tree.rotors(self.tree, description.armature)
        self.description = msgspec.structs.replace(description, armature=armature)
        model.armature = np.array([armature.get(name, 0.0) for name in self.tree.dof_names])
        rotors_of_base = [armature.get(name, 0.0) for name in self.tree.dof_names[:6]] if self.floating else [0.0]
        self._gyration = rotors_of_base[0] if len({*rotors_of_base[:3]}) == 1 else 0.0  # weightless mass of the base [kg]
        self.weighs_base = self.floating and not any(rotors_of_base)
        self.bodies = tree.read_bodies(model)
        self.total_mass = float(pin.computeTotalMass(model))
        self.weight = self.total_mass * (float(np.linalg.norm(self.bodies.gravity)) or STANDARD_GRAVITY)
        frames = {frame.name: frame for frame in model.frames}  # a joint and its link of the same name have the same parent
        self._frame_joints = {name: int(frame.parentJoint) for name, frame in frames.items()}
        self.spheres = tree.place_spheres(frames, description.contact)
        self.boxes = tree.place_boxes(frames, description.box, self.spheres)
        self.closures = tree.place_closures(frames, description.closure)
        self.contact_names = self.spheres.keys + self.boxes.pair_keys
        self.scratch: dict[Hashable, object] = {}
        self._neutral = np.array(pin.neutral(model))
        self.one_axis_each = bool((self.tree.q_index >= 0).all())
        self._actuated_q = tree.positions(model, self.tree.dof_joint[self.tree.a])
        self._open_data()
        check_mass_matrix(model, self._data, self.tree.dof_names, source)
        self.wheel_frames = wheel_frames(model, self._placed) - set(self.spheres.keys)

    def __repr__(self) -> str:
        sizes = f"nq={self.nq}, nv={self.nv}, na={self.na}, contacts={len(self.contact_names)}"
        return f"Robot({self.name!r}, {sizes}, mass={self.total_mass:.4g} kg)"

    @classmethod
    def from_file(cls, path: str | Path, base: str | None = None, **settings: Any) -> "Robot":
        """Return the robot of a URDF or an MJCF.

        base: of a URDF, default what the file means (`idyn.model.urdf.base_of`); of an MJCF: None, or that of the file, else
            InputError is raised
        settings: fields of `Description`; for exceptions see `from_urdf` and `from_mjcf`
        """
        text = read_text(path)
        if not is_mjcf(text):
            return cls.from_urdf(path, base=base or base_of(with_declared_prefixes(text), str(path)), **settings)
        robot = cls.from_mjcf(path, **settings)
        if base not in (None, robot.description.base):
            raise InputError("base", f"expected '{robot.description.base}', as {path} has it, got '{base}'")
        return robot

    @classmethod
    def from_urdf(cls, path: str | Path, **settings: Any) -> "Robot":
        """Return the robot of a URDF file. settings: fields of `Description`

        Raises ModelError for a file that cannot be read or is no URDF, and the exceptions of `Robot`.
        """
        text = read_text(path)
        if is_mjcf(text):
            raise ModelError(f"{path}: expected a URDF, got an MJCF: use `Robot.from_mjcf`")
        text = with_own_base(with_declared_prefixes(text), settings.get("base", "free_flyer"))
        return cls(Description(urdf=text, **settings), str(path))

    @classmethod
    def from_mjcf(cls, path: str | Path, **settings: Any) -> "Robot":
        """Return the robot of an MJCF file as MuJoCo's compiler reads it, see `idyn.model.mjcf`: masses, joints, limits,
        motors, armature, gravity and, unless `contact` is given, spheres that may touch. A base with a free joint floats. M and
        bias are compared with MuJoCo's. settings: fields of `Description`, except `urdf` and `base`

        Raises ModelError for a file that cannot be read or is not supported, ConfigError without MuJoCo, and the exceptions of
        `Robot`.
        """
        reading = Reading(path)
        fields = dict(reading.fields)
        fields["tau_max"] |= settings.pop("tau_max", {})
        robot = cls(Description(**fields | settings), str(path))
        if not {"armature", "gravity"} & {*settings}:
            reading.check(robot.terms, robot.tree.dof_names)
        return robot

    def variant(self, **changes: Any) -> "Robot":
        """Return a robot with some fields of the description replaced."""
        return Robot(msgspec.structs.replace(self.description, **changes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the description only: copies are rebuilt from it."""
        return Robot, (self.description,)

    def twin(self) -> "Robot":
        """Return the same robot with `pin.Data` and workspaces of its own, for another thread; the model is shared."""
        other = object.__new__(Robot)
        other.__dict__.update(self.__dict__, scratch={})
        other._open_data()
        return other

    def _open_data(self) -> None:
        """Create two `pin.Data`, for `terms` and for `place`, and store views of their arrays: reading an attribute through
        the bindings takes longer than a small kernel."""
        self._data, self._placed, self._sloped = (self._model.createData() for _ in range(3))
        self.frames = Frames(self._model, self.floating)
        data = self._data
        axes = data.J.T.reshape(-1, 6)  # the bindings return one column as a vector
        self.own_terms = DynamicsTerms(M=data.M, h=data.nle, axes=axes)
        self.own_ends, self.own_slope = np.zeros((len(self.closures.keys), 2, 3)), np.zeros((self.nv, self.nv))
        self._placements, self.placements = tree.placements_of(data), tree.placements_of(self._placed)
        self._placed_parts, self._base = tree.parts(self.placements), self._placements[1, 9:].data
        self.origin, self.far, self._place = np.zeros(3), False, b""
        self.current: Kinematics | None = None

    def joint_of_frame(self, name: str) -> int:
        """Return the index of the parent joint of a frame. Raises FrameNotFound."""
        if name not in self._frame_joints:
            raise FrameNotFound(name, self._frame_joints)
        return self._frame_joints[name]

    def inspect(self) -> list[Finding]:
        """Return warnings and notes about the URDF, see `idyn.model.build`."""
        return inspect_urdf(parse_urdf(self.description.urdf, self.name)) + inspect_limits(self.limits, self.joint_names)

    # -- functions of the state -----------------------------------------------------------------------------------

    def near(self, q: Array) -> Array:
        """Return the configuration (nq) at which terms are computed, see `idyn.model.frames`."""
        return nearby(q) if self.floating else q

    def compute(self, q: Array, v: Array) -> None:
        """The kinematics stage: compute Pinocchio's terms at (q, v) into the robot's buffers, axes and ends about `origin`."""
        self.current, place = None, np.asarray(q).tobytes()
        if self.far or place != self._place:  # else M, axes and placements are known: another velocity only
            self._place = b""
            pin.crba(self._model, self._data, q, WORLD)
            self._place = place
        pin.nonLinearEffects(self._model, self._data, q, v)
        if self._gyration:
            self.own_terms.h[:3] += self._gyration * np.cross(v[3:6], v[:3])
        x, y, z = self._base
        if self.far or not (-FAR <= x <= FAR and -FAR <= y <= FAR and -FAR <= z <= FAR):
            near = self.near(q)
            self.far = near is not q
            self.origin[:] = q[:3] if self.far else 0.0
            pin.crba(self._model, self._data, near, WORLD)  # h does not depend on the place
        if len(self.own_ends):
            joints, offsets = self.closures.joints, self.closures.offsets
            rotations, origins = tree.parts(self._placements)
            np.einsum("mkij,mkj->mki", rotations[joints], offsets, out=self.own_ends)
            self.own_ends += origins[joints]
        if self.far:
            self._placements[1:, 9:] += self.origin

    def terms(self, q: Array, v: Array) -> Kinematics:
        """Return M, h, joint axes and placements at (q, v): views of the robot's buffers; q and v are not copied."""
        self.compute(q, v)
        terms, axes, ends = self.own_terms, self.own_terms.axes, self.own_ends
        if self.far:
            axes, ends = axes.copy(), ends + self.origin
            axes[:, :3] += np.cross(self.origin, axes[:, 3:])
        at = Kinematics(q=q, v=v, M=terms.M, h=terms.h, axes=axes, placements=self._placements, ends=ends)
        self.current = at
        return at

    def kinematics(self, state: State | Kinematics) -> Kinematics:
        """Return `terms` at a state. If `state` is the result of the last call of `terms`, return it unchanged."""
        current = self.current
        return current if current is not None and state is current else self.terms(state.q, state.v)

    def terms_of(self, states: Iterable[tuple[Array, Array]], M: Array, axes: Array, h: Array, place: Array) -> None:
        """Compute the terms of many states (q, v) into the first rows of M (·, nv, nv), axes (·, nv, 6), h (·, 1, nv) and
        `place`: `origin` and the ends of closures (·, 1 + 2m, 3), all contiguous. Memory views take half of NumPy's time."""
        one, two, three = (tree.memory(own) for own in (self.own_terms.M.T, self.own_terms.axes, self.own_terms.h))
        all_M, all_axes, all_h = (tree.memory(rows) for rows in (M, axes, h))
        a, b, c = len(one), len(two), len(three)
        i = j = k = 0
        for row, (q, v) in enumerate(states):
            self.compute(q, v)
            all_M[i : i + a], all_axes[j : j + b], all_h[k : k + c] = one, two, three
            i, j, k = i + a, j + b, k + c
            place[row, 0] = self.origin
            if len(self.own_ends):
                place[row, 1:] = self.own_ends.reshape(-1, 3)

    def place(self, q: Array) -> tuple[Array, Array]:
        """Compute forward kinematics. Return rotations (njoints, 3, 3) and origins [m] (njoints, 3) of the joints: views of
        buffers that `terms` does not use. `placements` holds both, see `Kinematics`."""
        pin.forwardKinematics(self._model, self._placed, q)
        return self._placed_parts

    def closure_gaps(self, q: Array) -> tuple[Array, Array]:
        """Return the difference of the two points of each closure in the world [m] (3m), and its Jacobian (3m, nv)."""
        self.compute(q, np.zeros(self.nv))
        axes, ends = self.own_terms.axes, self.own_ends
        first, second = self.tree.support[self.closures.joints.T].astype(np.float64)
        velocities = axes[:, :3] + np.cross(axes[:, 3:], ends.mean(axis=1)[:, None, :])
        moves = (first - second)[:, :, None] * velocities
        return (ends[:, 0] - ends[:, 1]).ravel(), moves.transpose(0, 2, 1).reshape(-1, self.nv)

    def neutral(self) -> Array:
        """Return the neutral configuration (nq)."""
        return self._neutral.copy()

    def integrate(self, q: Array, step: Array) -> Array:
        """Return q ⊕ step, the configuration after the tangent vector step = v·dt (nv)."""
        return np.array(pin.integrate(self._model, q, step))

    def difference(self, q0: Array, q1: Array) -> Array:
        """Return q1 ⊖ q0, the tangent vector from q0 to q1 (nv)."""
        return np.array(pin.difference(self._model, q0, q1))

    def joint_angles(self, q: Array) -> Array:
        """Return the positions of the actuated joints [rad or m] (na). The angle of a continuous joint counts turns. For a
        joint with several degrees of freedom the positions are the tangent vector from its neutral position."""
        return q[self.tree.q_index] if self.one_axis_each else self.difference(self._neutral, q)[self.tree.a]

    def with_joint_angles(self, q: Array, angles: Array) -> Array:
        """Return q with the actuated joints at `angles` [rad or m] (na)."""
        moved = q.copy()
        if self.one_axis_each:
            moved[self.tree.q_index] = angles
            return moved
        step = self.difference(self._neutral, q)
        step[self.tree.a] = angles
        moved[self._actuated_q] = self.integrate(self._neutral, step)[self._actuated_q]
        return moved

    def joint_error(self, angles: Array, wanted: Array) -> Array:
        """Return the position error `wanted` − `angles` of the actuated joints [rad or m] (na); for joints with several degrees
        of freedom the tangent vector from `angles` to `wanted`, along the axes of their velocities."""
        if self.one_axis_each:
            return wanted - angles
        there, here = (self.with_joint_angles(self._neutral, each) for each in (wanted, angles))
        return self.difference(here, there)[self.tree.a]

    def compute_all_terms(self, q: Array, v: Array) -> None:
        """Call `pin.computeAllTerms`, whose time is the reference in this project's speed measurements."""
        pin.computeAllTerms(self._model, self._placed, q, v)

    def inverse_dynamics(self, q: Array, v: Array, acceleration: Array) -> Array:
        """Return the generalised force for an acceleration without contacts (nv), by `pin.rnea`."""
        force = np.array(pin.rnea(self._model, self._placed, q, v, acceleration))
        if self._gyration:
            force[:3] += self._gyration * np.cross(v[3:6], v[:3])
        return force

    def compute_slope(self, q: Array, v: Array) -> None:
        """Compute ∂h/∂v at (q, v) into `own_slope` (nv, nv)."""
        self.own_slope[:] = pin.computeRNEADerivatives(self._model, self._sloped, self.near(q), v, np.zeros(self.nv))[1]
        self._add_gyration(v, self.own_slope)

    def _add_gyration(self, v: Array, slope: Array) -> None:
        """Add ∂(m ω × v)/∂(v, ω) of the weightless mass m of the base."""
        if self._gyration:
            for k, axis in enumerate(np.eye(3)):
                slope[:3, k] += self._gyration * np.cross(v[3:6], axis)
                slope[:3, 3 + k] += self._gyration * np.cross(axis, v[:3])

    def inverse_dynamics_slopes(self, q: Array, v: Array, acceleration: Array) -> tuple[Array, Array]:
        """Return the derivatives of `inverse_dynamics` by q (tangent) and by v, each (nv, nv)."""
        pin.computeRNEADerivatives(self._model, self._placed, self.near(q), v, acceleration)
        by_q, by_v = self._placed.dtau_dq.copy(), self._placed.dtau_dv.copy()
        self._add_gyration(v, by_v)
        return by_q, by_v

    def energy(self, q: Array, v: Array) -> float:
        """Return kinetic plus potential energy [J]. `pin.computeKineticEnergy` omits the armature of some kinds of joints."""
        kinetic = 0.5 * v @ self.terms(q, v).M @ v
        return float(kinetic + pin.computePotentialEnergy(self._model, self._placed, q))

    def center_of_mass(self, q: Array) -> Array:
        """Return the centre of mass in the world [m] (3)."""
        return self.frames.center_of_mass(q)
