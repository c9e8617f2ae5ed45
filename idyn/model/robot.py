"""The robot: a model with its indices, places and limits, and the dynamics terms. Calls Pinocchio's algorithms."""

import hashlib
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pinocchio as pin

from idyn.errors import FrameNotFound, InputError, ModelError
from idyn.model.closures import place_closures
from idyn.model.description import Description
from idyn.model.inspection import Finding, inspect_urdf
from idyn.model.places import place_boxes, place_spheres
from idyn.model.tree import positions, read_bodies, read_limits, read_tree, rotors
from idyn.model.urdf import with_counted_turns
from idyn.types import Array, DynamicsTerms, Kinematics, State

WORLD = pin.Convention.WORLD
"""With it `pin.crba` leaves the joint axes in the world's coordinates."""


class Robot:
    """A URDF model with its actuated and unactuated parts, contact places and limits.

    description: what it was built from; armature by name
    name, urdf_sha256: of the model, of the URDF's text
    nq, nv, na, nu: sizes of q and v, and how many of the velocities are actuated and unactuated (na + nu = nv)
    joint_names: the actuated joints, or degrees of freedom of joints with several, in model order (na)
    tree, bodies, limits: see `idyn.model.tree`; spheres, boxes: see `idyn.model.places`; closures: see `idyn.model.closures`
    total_mass [kg], weight [N]
    floating: whether its base floats; one_axis_each: whether every actuated joint has one axis
    contact_names: of all contacts that geometry may find: the spheres' keys, then those of the pairs
    scratch: room for what others keep with the robot (`idyn.prediction.method`)

    It owns one `pin.Data`, so one robot belongs to one thread.
    """

    def __init__(self, description: Description, source: str = "URDF text") -> None:
        """`source`: where the text is from, for messages.

        Raises ModelError for a text that is no robot, FrameNotFound and InputError for names and values that make none.
        """
        self._model = model = _build(description, source)
        self.name: str = model.name
        self.urdf_sha256 = hashlib.sha256(description.urdf.encode()).hexdigest()
        self.floating = description.base == "free_flyer"
        self.tree = read_tree(model, description)
        self.joint_names = tuple(self.tree.dof_names[k] for k in self.tree.a.tolist())
        self.nq: int = model.nq
        self.nv: int = model.nv
        self.na, self.nu = len(self.tree.a), len(self.tree.u)
        self.limits = read_limits(model, self.tree, description.tau_max)
        armature = rotors(self.tree, description.armature)
        self.description = msgspec.structs.replace(description, armature=armature)
        model.armature = np.array([armature.get(name, 0.0) for name in self.tree.dof_names])
        self.bodies = read_bodies(model)
        self.total_mass = float(pin.computeTotalMass(model))
        self.weight = self.total_mass * float(np.linalg.norm(self.bodies.gravity))
        frames = {frame.name: frame for frame in model.frames}  # a joint and its link may share a name, and then all else
        self._frame_joints = {name: int(frame.parentJoint) for name, frame in frames.items()}
        self.spheres = place_spheres(frames, description.contact)
        self.boxes = place_boxes(frames, description.box, self.spheres)
        self.closures = place_closures(frames, description.closure)
        self.contact_names = self.spheres.keys + self.boxes.pair_keys
        self.scratch: dict[Hashable, object] = {}
        self._neutral = np.array(pin.neutral(model))
        self.one_axis_each = bool((self.tree.q_index >= 0).all())
        self._actuated_q = positions(model, self.tree.dof_joint[self.tree.a])
        self._open_data()

    def __repr__(self) -> str:
        sizes = f"nq={self.nq}, nv={self.nv}, na={self.na}, contacts={len(self.contact_names)}"
        return f"Robot({self.name!r}, {sizes}, mass={self.total_mass:.4g} kg)"

    @classmethod
    def from_urdf(cls, path: str | Path, **settings: Any) -> "Robot":
        """Read a URDF file; settings as in `Description`. Raises ModelError when there is no such file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: cannot be read ({error})") from error
        return cls(Description(urdf=text, **settings), str(path))

    def variant(self, **changes: Any) -> "Robot":
        """The same robot with some fields of its description replaced, and a scratch of its own."""
        return Robot(msgspec.structs.replace(self.description, **changes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are built anew, with a scratch of their own."""
        return Robot, (self.description,)

    def twin(self) -> "Robot":
        """The same robot with a scratch of its own, for another thread; the rest is shared."""
        other = object.__new__(Robot)
        other.__dict__.update(self.__dict__, scratch={})
        other._open_data()
        return other

    def _open_data(self) -> None:
        """Keep live views of two `pin.Data`, one for `terms`, one for `place`: reading an attribute through the bindings costs
        more than a small kernel."""
        self._data, self._placed = self._model.createData(), self._model.createData()
        data = self._data
        axes = data.J.T.reshape(-1, 6)  # of one column the bindings make a vector
        self.own_terms = DynamicsTerms(M=data.M, h=data.nle, axes=axes)
        self.own_ends = np.zeros((len(self.closures.keys), 2, 3))
        self._placements, self.placements = self._placements_of(data), self._placements_of(self._placed)
        self._placed_parts = _parts(self.placements)
        self._current: Kinematics | None = None

    def _placements_of(self, data: Any) -> Array:
        """A view of the joints' placements (njoints, 12), see `Kinematics`."""
        n, first = self._model.njoints, data.oMi[0].rotation
        stride = _address(data.oMi[1].rotation) - _address(first)
        placements = np.lib.stride_tricks.as_strided(first.T, (n, 12), (stride, 8))
        for seen, own in zip(_parts(placements), ("rotation", "translation"), strict=True):
            assert all(_address(getattr(data.oMi[i], own)) == _address(seen[i]) for i in range(n))
        assert placements.flags.c_contiguous
        return placements

    def joint_of_frame(self, name: str) -> int:
        """Index of the joint that carries a frame. Raises FrameNotFound."""
        if name not in self._frame_joints:
            raise FrameNotFound(name, self._frame_joints)
        return self._frame_joints[name]

    def inspect(self) -> list[Finding]:
        """Everything about the model that a user should know before trusting it."""
        return inspect_urdf(self.description.urdf, self.limits, self.joint_names)

    # -- what depends on the state --------------------------------------------------------------------------------

    def compute(self, q: Array, v: Array) -> None:
        """The kinematics stage: Pinocchio's terms at (q, v), into the robot's scratch."""
        self._current = None
        pin.crba(self._model, self._data, q, WORLD)
        pin.nonLinearEffects(self._model, self._data, q, v)
        if len(self.own_ends):
            joints, offsets = self.closures.joints, self.closures.offsets
            rotations, origins = _parts(self._placements)
            np.einsum("mkij,mkj->mki", rotations[joints], offsets, out=self.own_ends)
            self.own_ends += origins[joints]

    def terms(self, q: Array, v: Array) -> Kinematics:
        """M, h, joint axes and placements at (q, v), which are kept, not copied."""
        self.compute(q, v)
        terms = self.own_terms
        self._current = kinematics = Kinematics(
            q=q, v=v, M=terms.M, h=terms.h, axes=terms.axes, placements=self._placements, ends=self.own_ends
        )
        return kinematics

    def kinematics(self, state: State | Kinematics) -> Kinematics:
        """`terms` at a state. Nothing is computed for the last kinematics themselves."""
        current = self._current
        return current if current is not None and state is current else self.terms(state.q, state.v)

    def is_at(self, state: State | Kinematics) -> bool:
        """Whether the scratch has the terms of a state: only of the last kinematics themselves."""
        return state is self._current

    def terms_of(self, states: Iterable[tuple[Array, Array]], M: Array, axes: Array, h: Array, ends: Array) -> None:
        """The terms of many states (q, v), one after the other, into the first rows of M (·, nv, nv), axes (·, nv, 6),
        h (·, 1, nv) and, of closed chains, of `ends` (·, 2m, 3), all contiguous. As memory: numpy copies in twice the time."""
        one, two, three = (_bytes(own) for own in (self.own_terms.M.T, self.own_terms.axes, self.own_terms.h))
        all_M, all_axes, all_h = (_bytes(rows) for rows in (M, axes, h))
        a, b, c = len(one), len(two), len(three)
        i = j = k = 0
        for row, (q, v) in enumerate(states):
            self.compute(q, v)
            all_M[i : i + a], all_axes[j : j + b], all_h[k : k + c] = one, two, three
            i, j, k = i + a, j + b, k + c
            if len(self.own_ends):
                ends[row] = self.own_ends.reshape(-1, 3)

    def place(self, q: Array) -> tuple[Array, Array]:
        """Forward kinematics: rotations (njoints, 3, 3) and origins (njoints, 3) of the joints, views of a scratch that `terms`
        leaves alone. `placements` has both, see `Kinematics`."""
        pin.forwardKinematics(self._model, self._placed, q)
        return self._placed_parts

    def closure_gaps(self, q: Array) -> tuple[Array, Array]:
        """How far the first point of each closure is from the second, in the world [m] (3m), and what changes that (3m, nv)."""
        kinematics = self.terms(q, np.zeros(self.nv))
        axes, ends = kinematics.axes, kinematics.ends
        first, second = self.tree.support[self.closures.joints.T].astype(np.float64)
        velocities = axes[:, :3] + np.cross(axes[:, 3:], ends.mean(axis=1)[:, None, :])
        moves = (first - second)[:, :, None] * velocities
        return (ends[:, 0] - ends[:, 1]).ravel(), moves.transpose(0, 2, 1).reshape(-1, self.nv)

    def neutral(self) -> Array:
        return self._neutral.copy()

    def integrate(self, q: Array, step: Array) -> Array:
        """q ⊕ step: the configuration reached from q by the tangent vector step = v·dt (nv)."""
        return np.array(pin.integrate(self._model, q, step))

    def difference(self, q0: Array, q1: Array) -> Array:
        """q1 ⊖ q0: the tangent vector that leads from q0 to q1 (nv)."""
        return np.array(pin.difference(self._model, q0, q1))

    def joint_angles(self, q: Array) -> Array:
        """Positions of the actuated joints [rad or m] (na). That of a continuous joint counts its turns; those of a joint with
        several degrees of freedom are the tangent vector that leads there from where it is neutral."""
        return q[self.tree.q_index] if self.one_axis_each else self.difference(self._neutral, q)[self.tree.a]

    def with_joint_angles(self, q: Array, angles: Array) -> Array:
        """q with the actuated joints moved to `angles` (na)."""
        moved = q.copy()
        if self.one_axis_each:
            moved[self.tree.q_index] = angles
            return moved
        step = self.difference(self._neutral, q)
        step[self.tree.a] = angles
        moved[self._actuated_q] = self.integrate(self._neutral, step)[self._actuated_q]
        return moved

    def joint_error(self, angles: Array, wanted: Array) -> Array:
        """What is lacking from the actuated joints' positions to others: their difference, but for joints with several degrees
        of freedom the shortest way there, along the axes of their velocities [rad or m] (na)."""
        if self.one_axis_each:
            return wanted - angles
        there, here = (self.with_joint_angles(self._neutral, each) for each in (wanted, angles))
        return self.difference(here, there)[self.tree.a]

    def compute_all_terms(self, q: Array, v: Array) -> None:
        """`pin.computeAllTerms`: the yardstick in which this project measures speed."""
        pin.computeAllTerms(self._model, self._placed, q, v)

    def inverse_dynamics(self, q: Array, v: Array, acceleration: Array) -> Array:
        """`pin.rnea`: generalised force for an acceleration, no contacts (nv)."""
        return np.array(pin.rnea(self._model, self._placed, q, v, acceleration))

    def energy(self, q: Array, v: Array) -> float:
        """Kinetic plus potential energy [J]. `pin.computeKineticEnergy` leaves the armature of some kinds of joints out."""
        kinetic = 0.5 * v @ self.terms(q, v).M @ v
        return float(kinetic + pin.computePotentialEnergy(self._model, self._placed, q))

    def center_of_mass(self, q: Array) -> Array:
        """[m] (3)"""
        return np.array(pin.centerOfMass(self._model, self._placed, q))


def _build(description: Description, source: str) -> pin.Model:
    """Pinocchio's model. Raises InputError, ModelError."""
    base = description.base
    if base not in ("free_flyer", "fixed"):
        raise InputError("base", f"expected 'free_flyer' or 'fixed', got '{base}'")
    root = (pin.JointModelFreeFlyer(),) if base == "free_flyer" else ()
    try:
        model = pin.buildModelFromXML(with_counted_turns(description.urdf), *root)
    except (ElementTree.ParseError, ValueError, RuntimeError) as error:
        raise ModelError(f"{source}: not a URDF that Pinocchio can read ({error})") from error
    if model.nv == 0:
        raise ModelError(f"{source}: the model has no moving joint")
    return model


def _parts(placements: Array) -> tuple[Array, Array]:
    """Rotations (njoints, 3, 3) and origins (njoints, 3)."""
    return placements[:, :9].reshape(-1, 3, 3).transpose(0, 2, 1), placements[:, 9:]


def _bytes(array: Array) -> memoryview:
    """The memory of a contiguous array."""
    return memoryview(array.data).cast("B")


def _address(view: Array) -> int:
    return int(view.__array_interface__["data"][0])
