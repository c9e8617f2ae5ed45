"""Robots in MuJoCo's format MJCF, as MuJoCo's own compiler reads them (extra `mujoco`): text of a URDF without other files,
and the fields of `Description` that a URDF lacks. What neither can say is refused, all of it in one message; what has an
effect in MuJoCo and none here is a note in the element `idyn`, which `Robot.inspect` returns. With the pose T of a body at
q_ref

    T · J_1(q_1 − q_ref,1) · J_2(q_2 − q_ref,2) · …,     J(θ) = Trans(a) Rot(axis, θ) Trans(−a)  or  Trans(θ axis),  a: anchor
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import pinocchio as pin

from idyn.errors import ModelError, missing_extra
from idyn.model.description import Closure, ContactPoint
from idyn.model.urdf import ROOT_JOINT, add_origin, pose_of, rotation_of, text_of
from idyn.types import Array

BEGIN = re.compile(r"(?:[\s\ufeff]|(?><(?=\?).*?\?>)|(?><!(?=--).*?-->)|(?><!(?!--).*?>))*+<mujoco", re.DOTALL)
"""Blanks, instructions, comments and declarations, then the root element."""

FREE, BALL, SLIDE, HINGE = range(4)  # types of joints in MuJoCo
SPHERE, CAPSULE, CYLINDER, BOX, MESH = 2, 3, 5, 6, 7  # types of geoms in MuJoCo
NO_GRAVITY = 1 << 7  # flag of MuJoCo that disables gravity
STATES, CLOSE = 3, 1e-9  # number of states at which M and bias are compared with MuJoCo, largest relative difference
Names = dict[tuple[str, int], str]  # kind and index → name
TRANSMISSIONS = {2: "a slider crank", 3: "a tendon", 4: "a site", 5: "a body"}  # types in MuJoCo besides joints


def is_mjcf(text: str) -> bool:
    """Return whether the text of a model is MJCF, by its root element; a URDF may have an element `mujoco` inside.

    Parsers are not used: they leave cycles of objects, at every robot that a server builds without garbage collection.
    """
    return BEGIN.match(text) is not None


def compile_mjcf(path: str | Path) -> Any:
    """Return the `mujoco.MjModel` of a file. Raises ModelError with MuJoCo's reason, ConfigError without MuJoCo."""
    try:
        import mujoco  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError as error:
        raise missing_extra(str(path), "a robot in MJCF", "mujoco", "mujoco") from error
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ModelError(f"{path}: MuJoCo's compiler refuses it: {' '.join(str(error).split())}") from error


class Reading:
    """The robot of a compiled MJCF.

    fields: of `Description`; model: the compiled model
    """

    def __init__(self, path: str | Path) -> None:
        """Raises ModelError for a file that MuJoCo refuses, and for what is not supported, all of it in one message."""
        self.model = m = compile_mjcf(path)
        self.names = _names(m)
        self._notes: list[tuple[str, str]] = []
        self._roots = self._robot()
        first = int(m.body_jntadr[self._roots[0]]) if self._roots else -1
        self.floating = len(self._roots) == 1 and first >= 0 and m.jnt_type[first] == FREE
        self._free = first if self.floating else -1
        self.bodies = [b for b in range(1, m.nbody) if m.body_rootid[b] in self._roots]
        problems = [*self._problems(), *actuator_problems(m, self.names)]
        if problems:
            raise ModelError(f"{path}: not supported: {'; '.join(problems)}")
        self._text = Element("robot", name=self.names["model", 0] or Path(path).stem)
        if not self.floating:
            SubElement(self._text, "link", name="world")
        for body in self.bodies:
            self._add_body(body)
        closures = tuple(self._closures())
        limits, passive = motors(m, self.names, self._axes())
        if not m.nu:
            said = "no actuators: every joint is taken to have a motor without a limit"
            self._notes.append((self._text.get("name", ""), said))
        if m.opt.density or m.opt.viscosity:
            self._notes.append(("option", "density and viscosity are not used: no forces of air or water"))
        if self._notes:
            own = SubElement(self._text, "idyn")
            for where, message in self._notes:
                SubElement(own, "note", where=where, message=message)
        ElementTree.indent(self._text)
        armature = {self.names["joint", j]: float(m.dof_armature[m.jnt_dofadr[j]]) for j in self._axes()}
        if self.floating:  # from a default class; MuJoCo adds it to the inertia of the base, without weight
            of_base = float(m.dof_armature[m.jnt_dofadr[self._free]])
            armature |= {f"{ROOT_JOINT}.{k}": of_base for k in range(6)}
        self.fields: dict[str, Any] = {
            "urdf": ElementTree.tostring(self._text, encoding="unicode"),
            "base": "free_flyer" if self.floating else "fixed",
            "armature": {name: value for name, value in armature.items() if value > 0.0},
            "tau_max": limits,
            "unactuated": passive,
            "contact": tuple(self._spheres()),
            "closure": closures,
            "gravity": (0.0, 0.0, 0.0) if m.opt.disableflags & NO_GRAVITY else tuple(m.opt.gravity.tolist()),
        }

    def _robot(self) -> list[int]:
        """Return the root bodies of the robot: the largest tree with a free joint, or all trees that hang at the world. Trees
        beside it, such as a ball, are noted."""
        m = self.model
        sizes: dict[int, int] = {}
        for body in range(1, m.nbody):
            root = int(m.body_rootid[body])
            if m.body_jntnum[body] and m.body_mocapid[root] < 0:
                sizes[root] = sizes.get(root, 0) + int(m.body_dofnum[body])
        free = [root for root in sizes if m.body_jntnum[root] and m.jnt_type[m.body_jntadr[root]] == FREE]
        held = [root for root in sizes if root not in free]
        largest = max(free, key=lambda root: sizes[root], default=-1)
        floats = bool(free) and all(sizes[root] < sizes[largest] for root in held)
        roots = [largest] if floats else held
        for root in sizes:
            if root not in roots:
                self._notes.append((self.names["body", root], "moves beside the robot and is not part of the model"))
        return roots

    def joints_of(self, dof_names: tuple[str, ...]) -> Array:
        """Return MuJoCo's joint of each velocity of the robot (nv). dof_names: of its velocities (nv)"""
        axes = {self.names["joint", j]: j for j in self._axes()}
        return np.array([axes.get(name, self._free) for name in dof_names], dtype=np.int64)

    def keyframes(self) -> list[tuple[str, dict[str, float]]]:
        """Return the name of each keyframe and its positions of the joints with one axis, by name."""
        m, places = self.model, [(self.names["joint", j], int(self.model.jnt_qposadr[j])) for j in self._axes()]
        names = [_own_name(m, at) for at in m.name_keyadr]
        return [(name, {joint: float(qpos[at]) for joint, at in places}) for name, qpos in zip(names, m.key_qpos, strict=True)]

    def meshes(self) -> Iterator[tuple[str, Array, Array]]:
        """Yield the meshes that may touch others: link, points in the frame of the link (n, 3), triangles (m, 3)."""
        m = self.model
        for g in range(m.ngeom):
            body, mesh = int(m.geom_bodyid[g]), int(m.geom_dataid[g])
            if m.geom_type[g] == MESH and (m.geom_contype[g] or m.geom_conaffinity[g]) and body in self.bodies:
                first, face = m.mesh_vertadr[mesh], m.mesh_faceadr[mesh]
                points = m.mesh_vert[first : first + m.mesh_vertnum[mesh]].astype(np.float64)
                pose = pose_of(m.geom_pos[g], m.geom_quat[g])
                triangles = np.array(m.mesh_face[face : face + m.mesh_facenum[mesh]], dtype=np.int64)
                yield self.names["body", body], points @ pose.rotation.T + pose.translation, triangles

    def check(self, terms: Callable[[Array, Array], Any], dof_names: tuple[str, ...]) -> None:
        """Compare M and bias with MuJoCo's at `STATES` states. terms: `Robot.terms`; dof_names: of the robot's velocities (nv)

        Raises ModelError when they differ: then this module has misread the file.
        """
        import mujoco  # noqa: PLC0415 - an optional package

        m, rng = self.model, np.random.default_rng(0)
        m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        data, joints = mujoco.MjData(m), self.joints_of(dof_names)[6 if self.floating else 0 :].tolist()
        places, dofs = [int(m.jnt_qposadr[j]) for j in joints], [int(m.jnt_dofadr[j]) for j in joints]
        if self.floating:
            begin = int(m.jnt_dofadr[self._free])
            dofs = [*range(begin, begin + 6), *dofs]
        for _ in range(STATES):
            angles, v, R, drift = 0.5 * rng.normal(size=len(joints)), rng.normal(size=len(dofs)), np.eye(3), np.zeros(len(dofs))
            data.qpos[places] = angles
            base = np.zeros(0)
            if self.floating:
                turn = pin.Quaternion(*rng.normal(size=4).tolist()).normalized()
                R, at = turn.matrix(), int(m.jnt_qposadr[self._free])
                data.qpos[at : at + 7] = [0.1, 0.2, 0.3, turn.w, turn.x, turn.y, turn.z]
                base = np.array([0.1, 0.2, 0.3, turn.x, turn.y, turn.z, turn.w])
                drift[:3] = -np.cross(v[3:6], v[:3])  # ẍ = R (v̇ + ω × v)
            T = np.eye(len(dofs))
            if self.floating:
                T[:3, :3] = R.T
            data.qvel[dofs] = T.T @ v
            mujoco.mj_forward(m, data)
            M = np.zeros((m.nv, m.nv))
            for row, one in zip(M, np.eye(m.nv), strict=True):
                mujoco.mj_mulM(m, data, row, one)
            own = terms(np.concatenate([base, angles]), v)
            pairs = (T.T @ own.M @ T, M[np.ix_(dofs, dofs)]), (T.T @ (own.h + own.M @ drift), data.qfrc_bias[dofs])
            for what, (ours, theirs) in zip(("mass matrix", "bias"), pairs, strict=True):
                off = np.abs(ours - theirs) - CLOSE * max(1.0, float(np.abs(theirs).max()))
                if off.max() > 0.0:
                    name = dof_names[int(np.unravel_index(off.argmax(), off.shape)[0])]
                    raise ModelError(f"{name}: the {what} differs from MuJoCo's by {np.abs(ours - theirs).max():.2g}")

    def _axes(self) -> list[int]:
        m = self.model
        return [j for j in range(m.njnt) if m.jnt_type[j] in (SLIDE, HINGE) and m.jnt_bodyid[j] in self.bodies]

    def _problems(self) -> Iterator[str]:
        """Yield what is not supported: joints, bodies, equalities, tendons."""
        m, names = self.model, self.names
        if not self._roots:
            yield "no joint: expected a robot that moves"
        own = set(self.bodies)
        balls = [j for j in range(m.njnt) if m.jnt_type[j] == BALL and m.jnt_bodyid[j] in own]
        yield from (f"joint '{names['joint', j]}': a ball joint" for j in balls)
        for j in self._axes():
            if m.jnt_limited[j] and not m.jnt_range[j, 0] < m.jnt_range[j, 1]:
                lower, upper = m.jnt_range[j]
                yield f"joint '{names['joint', j]}': range {lower:g} to {upper:g}, expected lower < upper"
        yield from (f"body '{names['body', b]}': gravcomp {m.body_gravcomp[b]:g}" for b in own if m.body_gravcomp[b])
        kinds = ("connect", "weld", "joint", "tendon", "flex")
        for e in range(m.neq):
            kind = kinds[m.eq_type[e]] if m.eq_type[e] < len(kinds) else "of this type"
            if m.eq_active0[e] and kind != "connect":
                yield f"equality '{names['equality', e]}': {kind}"
        for t in range(m.ntendon):
            does = {"limits": m.tendon_limited[t], "a spring": m.tendon_stiffness[t].any()}
            does |= {"damping": m.tendon_damping[t].any(), "friction": m.tendon_frictionloss[t]}
            does |= {"armature": m.tendon_armature[t]}
            if any(does.values()):
                yield f"tendon '{names['tendon', t]}': {', '.join(name for name, has in does.items() if has)}"
        if m.nflex:
            yield f"{m.nflex} flexible bodies"

    def _add_body(self, body: int) -> None:
        m, names = self.model, self.names
        parent, pose = int(m.body_parentid[body]), pose_of(m.body_pos[body], m.body_quat[body])
        above = names["body", parent] if parent else "world"
        count = int(m.body_jntnum[body])
        joints = list(range(m.body_jntadr[body], m.body_jntadr[body] + count))
        if count and m.jnt_type[joints[0]] == FREE:
            joints = []
        elif not joints:
            self._add_joint(("fixed", f"{names['body', body]}"), (above, names["body", body]), pose)
        for k, j in enumerate(joints):
            anchor, axis, kind = pin.SE3(np.eye(3), m.jnt_pos[j].copy()), m.jnt_axis[j].copy(), int(m.jnt_type[j])
            ref = float(m.qpos0[m.jnt_qposadr[j]])
            if kind == HINGE:
                pose = pose * anchor * pin.SE3(pin.AngleAxis(-ref, axis).matrix(), np.zeros(3))
            else:
                pose = pose * anchor * pin.SE3(np.eye(3), -ref * axis)
            is_last = k == count - 1 and not m.jnt_pos[j].any()
            below = names["body", body] if is_last else f"{names['body', body]} of {names['joint', j]}"
            self._add_moving(j, (above, below), pose)
            above, pose = below, anchor.inverse()
        if joints and above != names["body", body]:
            self._add_joint(("fixed", f"{above} anchor"), (above, names["body", body]), pose)
        self._add_link(body)

    def _add_joint(self, kind: tuple[str, str], ends: tuple[str, str], pose: Any) -> Element:
        """Add a joint. kind: its type and name; ends: parent and child"""
        joint = SubElement(self._text, "joint", type=kind[0], name=kind[1])
        SubElement(joint, "parent", link=ends[0])
        SubElement(joint, "child", link=ends[1])
        add_origin(joint, pose)
        return joint

    def _add_moving(self, j: int, ends: tuple[str, str], pose: Any) -> None:
        m, limited = self.model, bool(self.model.jnt_limited[j])
        kind = "prismatic" if m.jnt_type[j] == SLIDE else "revolute" if limited else "continuous"
        joint = self._add_joint((kind, self.names["joint", j]), ends, pose)
        SubElement(joint, "axis", xyz=text_of(m.jnt_axis[j]))
        lower, upper = m.jnt_range[j] if limited else (0.0, 0.0)
        SubElement(joint, "limit", lower=repr(float(lower)), upper=repr(float(upper)), effort="0", velocity="0")
        dof = m.jnt_dofadr[j]
        passive = {"damping": m.dof_damping[dof], "friction": m.dof_frictionloss[dof], "stiffness": m.jnt_stiffness[j]}
        used = {name: repr(float(np.ravel(value)[0])) for name, value in passive.items() if np.any(value)}
        if used:
            SubElement(joint, "dynamics", {"damping": "0"} | used)  # urdfdom refuses a stiffness alone
        if ends[1] != self.names["body", int(m.jnt_bodyid[j])]:
            SubElement(self._text, "link", name=ends[1])

    def _add_link(self, body: int) -> None:
        """Add the link of a body with its inertia and its shapes that may touch others, without meshes."""
        m = self.model
        link = SubElement(self._text, "link", name=self.names["body", body])
        if m.body_mass[body] > 0.0:
            inertial, R = SubElement(link, "inertial"), rotation_of(m.body_iquat[body])
            SubElement(inertial, "origin", xyz=text_of(m.body_ipos[body]), rpy="0 0 0")
            SubElement(inertial, "mass", value=repr(float(m.body_mass[body])))
            moments = R @ np.diag(m.body_inertia[body]) @ R.T
            entries = {f"i{'xyz'[i]}{'xyz'[k]}": repr(float(moments[i, k])) for i in range(3) for k in range(i, 3)}
            SubElement(inertial, "inertia", entries)
        for g in range(m.body_geomadr[body], m.body_geomadr[body] + m.body_geomnum[body]):
            if m.geom_contype[g] or m.geom_conaffinity[g]:
                self._add_shapes(link, g)

    def _add_shapes(self, link: Element, g: int) -> None:
        m, pose = self.model, pose_of(self.model.geom_pos[g], self.model.geom_quat[g])
        a, b, c = m.geom_size[g].tolist()
        sphere, ends = ("sphere", {"radius": repr(a)}), (pin.SE3(np.eye(3), np.array([0.0, 0.0, z])) for z in (-b, b))
        tube = ("cylinder", {"radius": repr(a), "length": repr(2 * b)})
        shapes = {
            SPHERE: [(sphere, pose)],
            CAPSULE: [(tube, pose), *((sphere, pose * end) for end in ends)],
            CYLINDER: [(tube, pose)],
            BOX: [(("box", {"size": text_of([2 * a, 2 * b, 2 * c])}), pose)],
        }
        for (kind, sizes), place in shapes.get(int(m.geom_type[g]), []):
            collision = SubElement(link, "collision")
            add_origin(collision, place)
            SubElement(SubElement(collision, "geometry"), kind, sizes)

    def _spheres(self) -> Iterator[ContactPoint]:
        m = self.model
        for g in range(m.ngeom):
            body = int(m.geom_bodyid[g])
            touches = m.geom_contype[g] or m.geom_conaffinity[g]
            if m.geom_type[g] == SPHERE and touches and body in self.bodies and m.body_weldid[body]:
                x, y, z = m.geom_pos[g].tolist()
                yield ContactPoint(
                    frame=self.names["body", body],
                    offset=(x, y, z),
                    radius=float(m.geom_size[g, 0]),
                    mu=float(m.geom_friction[g, 0]),
                    name=_own_name(m, m.name_geomadr[g]),
                )

    def _closures(self) -> Iterator[Closure]:
        """Yield the closures of the active `connect` constraints, and add a frame at each of their ends."""
        m = self.model
        for e in range(m.neq):
            if not (m.eq_active0[e] and m.eq_type[e] == 0):
                continue
            ends = []
            for side, identity in enumerate((m.eq_obj1id[e], m.eq_obj2id[e])):
                if m.eq_objtype[e] == 1:  # a body and a point in it
                    body, place = int(identity), m.eq_data[e, 3 * side : 3 * side + 3]
                else:
                    body, place = int(m.site_bodyid[identity]), m.site_pos[identity]
                name = f"{self.names['equality', e]} {side + 1}"
                SubElement(self._text, "link", name=name)
                above = self.names["body", body] if body in self.bodies else "world"
                self._add_joint(("fixed", name), (above, name), pin.SE3(np.eye(3), np.array(place)))
                ends.append(name)
            yield Closure(first=ends[0], second=ends[1])


def _names(m: Any) -> Names:
    """Return a name of each body, joint, actuator, equality and tendon: that of the file, or one of ours that no other has."""
    tables = {"body": m.name_bodyadr, "joint": m.name_jntadr, "actuator": m.name_actuatoradr}
    tables |= {"equality": m.name_eqadr, "tendon": m.name_tendonadr, "model": [0]}
    found = {(kind, i): _own_name(m, at) for kind, table in tables.items() for i, at in enumerate(table)}
    taken = set(found.values())
    for (kind, i), name in found.items():
        if name == "" and kind != "model":
            owner = found["body", int(m.jnt_bodyid[i])] if kind == "joint" else ""
            wanted = f"{owner}_joint" if owner else f"{kind}{i}"
            while wanted in taken:
                wanted += "_"
            found[kind, i] = wanted
            taken.add(wanted)
    return found


def _own_name(m: Any, at: int) -> str:
    return bytes(m.names[at:]).split(b"\0", 1)[0].decode()


def actuator_problems(m: Any, names: Names) -> Iterator[str]:
    """Yield the actuators that do not turn one joint by a force."""
    for a in range(m.nu):
        kind, joint = int(m.actuator_trntype[a]), int(m.actuator_trnid[a, 0])
        if kind > 1:
            yield f"actuator '{names['actuator', a]}': acts on {TRANSMISSIONS.get(kind, 'no joint')}, not on a joint"
        elif m.jnt_type[joint] < 2:
            yield f"actuator '{names['actuator', a]}': acts on the free or ball joint '{names['joint', joint]}'"
        elif m.actuator_gaintype[a] > 1:
            yield f"actuator '{names['actuator', a]}': a muscle or a user's own gain"


def motors(m: Any, names: Names, axes: list[int]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the torque limits of the joints [N·m or N], and the joints without a motor. Without actuators all have motors.
    axes: the robot's joints with one axis

    A limit is the smallest of those that the file gives: `actuatorfrcrange` of the joint, and for each of its actuators gear
    times `forcerange`, and gear times gain times `ctrlrange` if the force is proportional to the control.
    """
    limits = {j: float(np.abs(m.jnt_actfrcrange[j]).max()) if m.jnt_actfrclimited[j] else np.inf for j in axes}
    driven = set()
    for a in range(m.nu):
        j, gear, force = int(m.actuator_trnid[a, 0]), abs(float(m.actuator_gear[a, 0])), np.inf
        if j not in limits:
            continue
        driven.add(j)
        if m.actuator_forcelimited[a]:
            force = float(np.abs(m.actuator_forcerange[a]).max())
        if m.actuator_gaintype[a] == 0 and m.actuator_biastype[a] == 0 and m.actuator_ctrllimited[a]:
            force = min(force, float(np.abs(m.actuator_ctrlrange[a]).max()) * abs(float(m.actuator_gainprm[a, 0])))
        limits[j] = min(limits[j], gear * force)
    passive = tuple(names["joint", j] for j in axes if m.nu and j not in driven)
    return {names["joint", j]: limits[j] for j in axes if np.isfinite(limits[j]) and names["joint", j] not in passive}, passive
