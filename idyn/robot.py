"""The robot: names, indices, limits, and the dynamics terms. The only door to Pinocchio's algorithms."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pinocchio as pin

from idyn.errors import FrameNotFound, InputError, ModelError, nearest
from idyn.sanity import Finding, inspect_urdf
from idyn.shapes import Box
from idyn.types import Array, DynamicsTerms, Record

DUMMY_EFFORT = 1e3
"""Effort limits of at least this many N·m (or N) are taken for placeholders: no robot joint of a URDF in use has more."""


class ContactPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place of the robot that may touch: a sphere (radius 0: a point) fixed to a named frame.

    frame: a frame of the URDF
    offset: centre of the sphere in that frame [m]
    radius: [m], ≥ 0
    mu: friction coefficient when nobody says otherwise, ≥ 0, may be inf
    """

    frame: str
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0
    mu: float = 1.0


class Limits(Record, frozen=True):
    """Actuated joints in model order: tau_max [N·m], v_max [rad/s], q_min and q_max [rad], all (na), inf when unknown."""

    tau_max: Array
    v_max: Array
    q_min: Array
    q_max: Array


class Bodies(Record, frozen=True):
    """What the joints of a model carry; index 0 is the environment with all that is fixed to it.

    masses: [kg] (njoints)
    centres: of mass, in the joints' frames [m] (njoints, 3)
    inertias: about the centres of mass, along the axes of the joints' frames [kg·m²] (njoints, 3, 3)
    armature: what the motors' rotors add to the diagonal of M [kg·m²] (nv)
    gravity: acceleration, in the world frame [m/s²] (3)
    """

    masses: Array
    centres: Array
    inertias: Array
    armature: Array
    gravity: Array


class Robot:
    """A URDF model with its actuated and unactuated parts, contact places and limits.

    It owns one `pin.Data` as scratch, so one robot belongs to one thread.
    """

    def __init__(
        self,
        urdf: str,
        *,
        base: str = "free_flyer",
        contact_points: Sequence[ContactPoint] = (),
        boxes: Sequence[Box] = (),
        unactuated: Sequence[str] = (),
        tau_max: Mapping[str, float] | None = None,
        armature: Mapping[str, float] | float = 0.0,
        source: str = "urdf text",
    ) -> None:
        """Build from URDF text. `unactuated` names joints without a motor, besides a floating base and floating joints (free
        bodies that the robot touches). `armature` is the inertia of a motor's rotor as its joint feels it: rotor inertia times
        gear ratio squared [kg·m²], of every actuated joint or by joint; it adds to the diagonal of M and to nothing else.

        Raises ModelError for a text that is no robot, FrameNotFound and InputError for names that the model lacks.
        """
        if base not in ("free_flyer", "fixed"):
            raise InputError("base", f"expected 'free_flyer' or 'fixed', got '{base}'")
        try:
            self._model = (
                pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer()) if base == "free_flyer" else pin.buildModelFromXML(urdf)
            )
        except (ValueError, RuntimeError) as error:
            raise ModelError(f"{source}: not a URDF that Pinocchio can read ({error})") from error
        if self._model.nv == 0:
            raise ModelError(f"{source}: the model has no moving joint")
        self.urdf = urdf
        self.urdf_sha256 = hashlib.sha256(urdf.encode()).hexdigest()
        self.source = source
        self.base = base
        self.name: str = self._model.name
        self.nq: int = self._model.nq
        self.nv: int = self._model.nv
        self.total_mass = float(pin.computeTotalMass(self._model))
        self.weight = self.total_mass * float(np.linalg.norm(self._model.gravity.linear))
        self._index_joints(unactuated)
        self.limits = self._read_limits(tau_max or {})
        self.armature = self._add_armature(armature)
        self._open_scratch()
        self._place_contacts(contact_points)
        self._place_boxes(boxes)

    @classmethod
    def from_urdf(cls, path: str | Path, **settings: object) -> "Robot":
        """Read a URDF file; settings as in the constructor. Raises ModelError when there is no such file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: cannot be read ({error})") from error
        return cls(text, source=str(path), **settings)  # type: ignore[arg-type]

    def variant(self, **changes: object) -> "Robot":
        """The same robot with some arguments of the constructor replaced, `urdf` among them, and a scratch of its own."""
        return _built(self._settings() | changes)

    def _settings(self) -> dict[str, object]:
        limits = zip(self.joint_names, self.limits.tau_max.tolist(), strict=True)
        return {
            "urdf": self.urdf,
            "base": self.base,
            "contact_points": self.contact_points,
            "boxes": self.boxes,
            "unactuated": self.unactuated_joints,
            "tau_max": dict(limits),
            "armature": self.armature,
            "source": self.source,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are built anew, with a scratch of their own."""
        return _built, (self._settings(),)

    # -- what the model consists of -------------------------------------------------------------------------------

    def _index_joints(self, unactuated: Sequence[str]) -> None:
        model = self._model
        names = list(model.names)
        for name in unactuated:
            if name not in names:
                raise InputError("unactuated", f"no joint named '{name}'{nearest(name, names)}")
        passive = set(unactuated)
        u: list[int] = []
        a: list[int] = []
        actuated: list[str] = []
        q_index: list[int] = []
        for i in range(1, model.njoints):
            joint = model.joints[i]
            columns = range(joint.idx_v, joint.idx_v + joint.nv)
            if joint.nv > 1 or names[i] in passive:
                u.extend(columns)
            else:
                a.extend(columns)
                actuated.append(names[i])
                q_index.append(joint.idx_q if joint.nq == 1 else -1)  # a continuous joint has no position limit
        free = [joint.idx_q + 3 for joint in list(model.joints)[1:] if joint.nq == 7]
        self.quaternions = np.array(
            free, dtype=np.int64
        )  # where in q those of the floating base and of free bodies begin (xyzw)
        self.joint_names = tuple(actuated)
        self.a = np.array(a, dtype=np.int64)
        self.u = np.array(u, dtype=np.int64)
        self.na, self.nu = len(a), len(u)
        self.unactuated_joints = tuple(unactuated)
        self.parents = np.array([model.parents[i] for i in range(model.njoints)], dtype=np.int64)
        self.dof_joint = np.zeros(model.nv, dtype=np.int64)
        self.support = np.zeros((model.njoints, model.nv), dtype=np.bool_)
        for i in range(1, model.njoints):
            joint = model.joints[i]
            self.dof_joint[joint.idx_v : joint.idx_v + joint.nv] = i
            for k in model.supports[i].tolist():
                ancestor = model.joints[k]
                if k:
                    self.support[i, ancestor.idx_v : ancestor.idx_v + ancestor.nv] = True
        self.q_index = np.array(q_index, dtype=np.int64)
        self._plain_angles = bool((self.q_index >= 0).all())

    def _read_limits(self, tau_max: Mapping[str, float]) -> Limits:
        unknown = [name for name in tau_max if name not in self.joint_names]
        if unknown:
            raise InputError("tau_max", f"no actuated joint named '{unknown[0]}'{nearest(unknown[0], self.joint_names)}")
        effort = np.array(self._model.upperEffortLimit)[self.a]
        effort = np.where((effort <= 0) | (effort >= DUMMY_EFFORT), np.inf, effort)
        for name, value in tau_max.items():
            effort[self.joint_names.index(name)] = value
        speed = np.array(self._model.upperVelocityLimit)[self.a]
        lower, upper = np.array(self._model.lowerPositionLimit), np.array(self._model.upperPositionLimit)
        q_min, q_max = lower[self.q_index], upper[self.q_index]
        free = (self.q_index < 0) | ~(q_min < q_max)
        return Limits(
            tau_max=effort,
            v_max=np.where(speed <= 0, np.inf, speed),
            q_min=np.where(free, -np.inf, q_min),
            q_max=np.where(free, np.inf, q_max),
        )

    def _add_armature(self, armature: Mapping[str, float] | float) -> dict[str, float]:
        """Give the model its motors' rotors; by joint, without those that have none [kg·m²]."""
        by_joint = armature if isinstance(armature, Mapping) else dict.fromkeys(self.joint_names, armature)
        columns = np.zeros(self.nv)
        movable = [name for name, joint in zip(self._model.names, self._model.joints, strict=True) if joint.nv == 1]
        for name, value in by_joint.items():
            if name not in movable:
                raise InputError("armature", f"no joint of one axis named '{name}'{nearest(name, movable)}")
            if not 0 <= value < np.inf:
                raise InputError(f"armature.{name}", f"expected a finite number ≥ 0, got {value}")
            columns[self._model.joints[self._model.getJointId(name)].idx_v] = value
        self._model.armature = columns
        return {name: float(value) for name, value in by_joint.items() if value > 0}

    def _open_scratch(self) -> None:
        """Keep live views of `pin.Data`: reading an attribute through the bindings costs more than a small kernel. `scratch` is
        room for what others keep with the robot (`idyn.dynamics.kept`)."""
        self.scratch: dict[int, object] = {}
        self._data = data = self._model.createData()
        self._M, self._h, self._axes = data.M, data.nle, data.J.T.reshape(-1, 6)  # of one column the bindings make a vector
        first, stride = data.oMi[0], 0
        if self._model.njoints > 1:
            stride = _address(data.oMi[1].translation) - _address(first.translation)
        n = self._model.njoints
        self._translations = np.lib.stride_tricks.as_strided(first.translation, (n, 3), (stride, 8))
        self._rotations = np.lib.stride_tricks.as_strided(first.rotation, (n, 3, 3), (stride, *first.rotation.strides))
        assert all(_address(data.oMi[i].translation) == _address(self._translations[i]) for i in range(n))

    def _place_contacts(self, points: Sequence[ContactPoint]) -> None:
        frames = {frame.name: frame for frame in self._model.frames}  # a joint and its link may share a name, and then all else
        self._frame_joints = {name: int(frame.parentJoint) for name, frame in frames.items()}
        keys: list[str] = []
        joints, offsets = [], []
        for point in points:
            frame = frames.get(point.frame)
            if frame is None:
                raise FrameNotFound(point.frame, frames)
            if point.radius < 0 or not point.mu >= 0:
                field = "radius" if point.radius < 0 else "mu"
                raise InputError(f"contact.{point.frame}.{field}", f"expected ≥ 0, got {getattr(point, field)}")
            same = sum(key.split(".")[0] == point.frame for key in keys)
            keys.append(f"{point.frame}.{same}" if same else point.frame)
            joints.append(frame.parentJoint)
            offsets.append(frame.placement.act(np.array(point.offset)))
        self.contact_points = tuple(points)
        self.contact_keys = tuple(keys)
        self.contact_joints = np.array(joints, dtype=np.int64)
        self.contact_offsets = np.array(offsets, dtype=np.float64).reshape(-1, 3)
        self.contact_radii = np.array([p.radius for p in points], dtype=np.float64)
        self.contact_mu = np.array([p.mu for p in points], dtype=np.float64)

    def _place_boxes(self, boxes: Sequence[Box]) -> None:
        """Boxes in their joints' frames, and all pairs of a contact place and a box of another body."""
        frames = {frame.name: frame for frame in self._model.frames}
        placements = []
        for box in boxes:
            if min(box.size) <= 0 or not box.mu >= 0:
                field, expected = ("size", "> 0") if min(box.size) <= 0 else ("mu", "≥ 0")
                raise InputError(f"box.{box.frame}.{field}", f"expected {expected}, got {getattr(box, field)}")
            self.joint_of_frame(box.frame)
            frame = frames[box.frame]
            placements.append((frame.parentJoint, frame.placement.rotation, frame.placement.act(np.array(box.offset))))
        pairs = [(i, b) for i, joint in enumerate(self.contact_joints) for b, box in enumerate(placements) if box[0] != joint]
        self.boxes = tuple(boxes)
        self.box_joints = np.array([joint for joint, _, _ in placements], dtype=np.int64)
        self.box_rotations = np.array([rotation for _, rotation, _ in placements]).reshape(-1, 3, 3)
        self.box_offsets = np.array([offset for _, _, offset in placements]).reshape(-1, 3)
        self.box_halves = 0.5 * np.array([box.size for box in boxes]).reshape(-1, 3)
        self.pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self.pair_keys = tuple(f"{self.contact_keys[i]}/{boxes[b].frame}" for i, b in pairs)
        self.pair_mu = np.array([boxes[b].mu for _, b in pairs], dtype=np.float64)

    def bodies(self) -> Bodies:
        """What each joint carries, for simulators that build a model of their own."""
        inertias = list(self._model.inertias)
        return Bodies(
            masses=np.array([inertia.mass for inertia in inertias]),
            centres=np.array([inertia.lever for inertia in inertias]),
            inertias=np.array([inertia.inertia for inertia in inertias]),
            armature=np.array(self._model.armature),
            gravity=np.array(self._model.gravity.linear),
        )

    def joint_of_frame(self, name: str) -> int:
        """Index of the joint that carries a frame. Raises FrameNotFound."""
        if name not in self._frame_joints:
            raise FrameNotFound(name, self._frame_joints)
        return self._frame_joints[name]

    def inspect(self) -> list[Finding]:
        """Everything about the model that a user should know before trusting it."""
        return inspect_urdf(self.urdf, self.limits, self.joint_names, DUMMY_EFFORT)

    # -- what depends on the state --------------------------------------------------------------------------------

    def terms(self, q: Array, v: Array) -> DynamicsTerms:
        """M, h and the joint axes at (q, v); also places the bodies for `placements`."""
        pin.crba(self._model, self._data, q, pin.Convention.WORLD)
        pin.nonLinearEffects(self._model, self._data, q, v)
        return DynamicsTerms(M=self._M, h=self._h, axes=self._axes)

    def place(self, q: Array) -> tuple[Array, Array]:
        """Forward kinematics: rotations (njoints, 3, 3) and origins (njoints, 3) of the joints, views of the scratch."""
        pin.forwardKinematics(self._model, self._data, q)
        return self._rotations, self._translations

    def neutral(self) -> Array:
        return np.array(pin.neutral(self._model))

    def integrate(self, q: Array, step: Array) -> Array:
        """q ⊕ step: the configuration reached from q by the tangent vector step = v·dt (nv)."""
        return np.array(pin.integrate(self._model, q, step))

    def difference(self, q0: Array, q1: Array) -> Array:
        """q1 ⊖ q0: the tangent vector that leads from q0 to q1 (nv)."""
        return np.array(pin.difference(self._model, q0, q1))

    def joint_angles(self, q: Array) -> Array:
        """Positions of the actuated joints [rad or m] (na); a continuous joint gives its angle in (−π, π]."""
        return q[self.q_index] if self._plain_angles else self.difference(self.neutral(), q)[self.a]

    def with_joint_angles(self, q: Array, angles: Array) -> Array:
        """q with the actuated joints moved to `angles` (na)."""
        step = np.zeros(self.nv)
        step[self.a] = angles - self.joint_angles(q)
        return self.integrate(q, step)

    def compute_all_terms(self, q: Array, v: Array) -> None:
        """`pin.computeAllTerms`: the yardstick in which this project measures speed."""
        pin.computeAllTerms(self._model, self._data, q, v)

    def inverse_dynamics(self, q: Array, v: Array, acceleration: Array) -> Array:
        """`pin.rnea`: generalised force for an acceleration, no contacts (nv)."""
        return np.array(pin.rnea(self._model, self._data, q, v, acceleration))

    def energy(self, q: Array, v: Array) -> float:
        """Kinetic plus potential energy [J]. `pin.computeKineticEnergy` leaves the armature of some kinds of joints out."""
        kinetic = 0.5 * v @ self.terms(q, v).M @ v
        return float(kinetic + pin.computePotentialEnergy(self._model, self._data, q))

    def center_of_mass(self, q: Array) -> Array:
        """[m] (3)"""
        return np.array(pin.centerOfMass(self._model, self._data, q))


def _built(settings: dict[str, object]) -> Robot:
    return Robot(**settings)  # type: ignore[arg-type]


def _address(view: Array) -> int:
    return int(view.__array_interface__["data"][0])
