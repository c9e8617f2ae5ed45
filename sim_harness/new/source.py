"""The model that a draft is made from, a URDF or an MJCF, and its standing pose: from an SRDF file beside it, or computed."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from controllers.robot.load import DESCRIPTIONS, ROBOT_DATA, has_descriptions, shared_folder, urdf_path
from idyn.errors import ConfigError, ModelError, install_command, nearest
from idyn.model.build import read_text
from idyn.model.mjcf import Reading, is_mjcf
from idyn.model.robot import Robot
from idyn.model.urdf import lines_of, parse_urdf
from idyn.types import Array
from sim_harness.new.limbs import Foot
from sim_harness.shapes import Mesh, Shape, collision_shapes, mesh_shape

PREFERRED = ("standing", "stand", "stance", "half_sitting", "home", "initial", "nominal", "reference")
"""Names of poses in SRDF files, the best first."""

COMPUTED = "computed"  # beginning of the source of a pose of `below_the_hips`
REACH, UPRIGHT = 0.8, 0.93  # height of a hip above its foot, as a share of the length of the leg; on soles
INSIDE = 0.15  # distance of the angles of a leg from their limits: the steps need it [rad]
BALANCING, BALANCED = 4, 0.003  # balance of a computed pose: largest number of iterations, tolerance [m]
LEVELLING = 100  # largest number of evaluations when feet are made level within the limits of joints
STARTS = 24  # number of starts of the search for the angles of a leg


class Pose(NamedTuple):
    """Joint angles by name [rad]. source: where they come from"""

    angles: dict[str, float]
    source: str


def poses_beside(model: Path) -> list[Pose]:
    """Return the poses of SRDF files beside a model or in a folder `srdf` beside its folder, the best names first."""
    paths = []
    for folder in (model.parent, model.parent / "srdf", model.parent.parent / "srdf"):
        paths += sorted(folder.glob("*.srdf"), key=lambda path: path.stem != model.stem)
    return ordered([each for path in paths for each in _states(path)])


def srdf_poses(path: Path) -> list[Pose]:
    """Return the poses of an SRDF file, the best names first. Raises ModelError for a file without one."""
    try:
        poses = ordered(_states(path, strict=True))
    except (OSError, ElementTree.ParseError) as error:
        raise ModelError(f"{path}: cannot be read ({error})") from error
    if not poses:
        raise ModelError(f"{path}: expected a 'group_state' named {', '.join(PREFERRED)}, got none")
    return poses


def ordered(found: list[tuple[str, Pose]]) -> list[Pose]:
    """Return the poses with names of `PREFERRED`, in its order."""
    order = {name: k for k, name in enumerate(PREFERRED)}
    known = [(order[name], pose) for name, pose in found if name in order]
    return [pose for _, pose in sorted(known, key=lambda each: each[0])]


def _states(path: Path, *, strict: bool = False) -> list[tuple[str, Pose]]:
    """Return names and poses of an SRDF. strict: raise ParseError for a file that is no XML, else it has no poses"""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        if strict:
            raise
        return []
    states = []
    for state in root.iter("group_state"):
        angles = {}
        for joint in state.iter("joint"):
            values = joint.get("value", "").split()
            if len(values) == 1:
                angles[joint.get("name", "")] = float(values[0])
        name = state.get("name", "")
        states.append((name, Pose(angles, f"pose '{name}' of {path.name}")))
    return states


def fits(robot: Robot, pose: Pose) -> bool:
    """Return whether all joints of a pose that the robot has are within their limits, and it has one of them."""
    limits, known = robot.limits, [name for name in pose.angles if name in robot.joint_names]
    rows = [robot.joint_names.index(name) for name in known]
    angles = np.array([pose.angles[name] for name in known])
    return bool(rows) and bool((angles >= limits.q_min[rows] - 1e-9).all() and (angles <= limits.q_max[rows] + 1e-9).all())


def known_angles(robot: Robot, pose: Pose) -> dict[str, float]:
    """Return the angles of the robot's own joints that are not zero; those that the pose leaves out are inside their limits."""
    return middle(robot) | {name: angle for name, angle in pose.angles.items() if name in robot.joint_names and angle != 0.0}


def middle(robot: Robot) -> dict[str, float]:
    """Return angles of all joints: zero, or the nearest angle within the limits, a tenth of the range inside them."""
    angles = {}
    for k, name in enumerate(robot.joint_names):
        low, high = robot.limits.q_min[k], robot.limits.q_max[k]
        inside = 0.1 * (high - low) if np.isfinite(high - low) else 0.0
        angle = float(np.clip(0.0, low + inside, high - inside))
        if not low <= 0.0 <= high:
            angles[name] = angle
    return rounded(robot, angles)


def rounded(robot: Robot, angles: dict[str, float]) -> dict[str, float]:
    """Return angles rounded to 1 mrad (or mm), but within the limits, which are rounded inwards to 1 µrad."""
    low = np.ceil(robot.limits.q_min * 1e6) / 1e6
    high = np.floor(robot.limits.q_max * 1e6) / 1e6
    row = {name: k for k, name in enumerate(robot.joint_names)}
    return {name: float(np.clip(round(angle, 3), low[row[name]], high[row[name]])) for name, angle in angles.items()}


def below_the_hips(robot: Robot, feet: Sequence[Foot], q: Array) -> Pose:
    """Return a pose near q with each foot below its hip, all shifted alike so that the middle of the contact places is
    below the centre of mass."""
    others, legs = middle(robot), [joint for foot in feet for joint in foot.limb.joints]
    height, shift = min((UPRIGHT if foot.is_flat else REACH) * _length(robot, foot, q) for foot in feet), np.zeros(2)
    names = [robot.joint_names[k] for k, dof in enumerate(robot.tree.a.tolist()) if robot.tree.dof_joint[dof] in legs]
    angles: dict[str, float] = {}
    for _ in range(BALANCING):
        for foot in feet:
            angles |= _leg(robot, foot, q, height, shift)
        q = robot.with_joint_angles(q, np.array([(others | angles).get(name, 0.0) for name in robot.joint_names]))
        places = np.array([_contact(robot, foot, q)[:2] for foot in feet])
        off = robot.center_of_mass(q)[:2] - places.mean(axis=0)
        if np.abs(off).max() < BALANCED:
            break
        shift += off
    known = others | rounded(robot, {name: angles[name] for name in names})
    return Pose(known, f"{COMPUTED}, with the feet below the hips and the centre of mass above their middle")


def level(robot: Robot, feet: Sequence[Foot], pose: Pose, q: Array) -> Pose:
    """Return the pose with the joints of legs changed as little as possible, so that all contact places are at one height.
    q: its configuration"""
    joints = {joint for foot in feet for joint in foot.limb.joints}
    rows = [k for k, dof in enumerate(robot.tree.a.tolist()) if robot.tree.dof_joint[dof] in joints]

    def error(change: Array) -> Array:
        step = np.zeros(robot.nv)
        step[robot.tree.a[rows]] = change
        there = robot.integrate(q, step)
        heights = np.concatenate([heights_of(robot, foot, there) for foot in feet])
        return np.concatenate([1e3 * (heights - heights.mean()), 1e-3 * change])

    now = robot.joint_angles(q)[rows]
    low = np.minimum(np.ceil(robot.limits.q_min[rows] * 1e6) / 1e6 - now, -1e-9)
    high = np.maximum(np.floor(robot.limits.q_max[rows] * 1e6) / 1e6 - now, 1e-9)
    change = least_squares(error, np.zeros(len(rows))).x
    if ((change < low) | (change > high)).any():  # with bounds the search takes much longer
        change = least_squares(error, np.zeros(len(rows)), bounds=(low, high), max_nfev=LEVELLING).x
    moved = dict(zip([robot.joint_names[k] for k in rows], (now + change).tolist(), strict=True))
    return Pose(pose.angles | {name: round(angle, 6) for name, angle in moved.items()}, f"{pose.source}, feet made level")


def heights_of(robot: Robot, foot: Foot, q: Array) -> Array:
    """Return the heights of the lowest points of the contact places of a foot [m]."""
    pose = robot.frames.placement(foot.limb.frame, q)
    heights: Array = np.array([(pose.translation + pose.rotation @ np.array(p.offset))[2] - p.radius for p in foot.points])
    return heights


def apart(robot: Robot, feet: Sequence[Foot], q: Array, distance: float) -> tuple[list[Foot], list[Foot]]:
    """Return the feet that are at least `distance` [m] from those before them, and the others."""
    own: list[Foot] = []
    for foot in feet:
        if all(np.linalg.norm(_contact(robot, foot, q) - _contact(robot, other, q)) >= distance for other in own):
            own.append(foot)
    return own, [foot for foot in feet if foot not in own]


def steadiness(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the distance of the centre of mass from the nearest edge of the support polygon, as a share of its height above
    the feet: the tangent of the inclination at which the robot tips over. Negative if it does so without inclination."""
    frames = [(robot.frames.placement(foot.limb.frame, q), foot) for foot in feet]
    places = np.array([pose.translation + pose.rotation @ np.array(p.offset) for pose, foot in frames for p in foot.points])
    away = places - robot.center_of_mass(q)
    angles = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    reach = (away[:, :2] @ np.stack([np.cos(angles), np.sin(angles)])).max(axis=0)
    return float(reach.min() / -away[:, 2].mean())


def _length(robot: Robot, foot: Foot, q: Array) -> float:
    """Return the length of a leg: the sum of the distances between its joints, from the hip on, and the foot [m]."""
    return float(sum(np.linalg.norm(b - a) for a, b in pairwise(_from_hip(robot, foot, q))))


def _from_hip(robot: Robot, foot: Foot, q: Array) -> list[Array]:
    """Return the origins of the joints of a leg from that on at which the thigh begins, and the contact place [m] (3): those
    before it are nearer to one another than half the longest distance between two."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    origins = [placements[joint, 9:] for joint in foot.limb.joints] + [_contact(robot, foot, q)]
    lengths = np.array([np.linalg.norm(b - a) for a, b in pairwise(origins)])
    return origins[int(np.argmax(lengths > 0.5 * lengths.max())) :]


def _contact(robot: Robot, foot: Foot, q: Array) -> Array:
    pose = robot.frames.placement(foot.limb.frame, q)
    place: Array = pose.translation + pose.rotation @ np.mean([point.offset for point in foot.points], axis=0)
    return place


def _leg(robot: Robot, foot: Foot, q: Array, height: float, shift: Array) -> dict[str, float]:
    """Return the angles of a leg with its contact place `height` below its hip, and shifted in the plane [m] (2)."""
    rows = [k for k, dof in enumerate(robot.tree.a.tolist()) if robot.tree.dof_joint[dof] in foot.limb.joints]
    low, high = np.maximum(robot.limits.q_min[rows], -np.pi), np.minimum(robot.limits.q_max[rows], np.pi)
    inside = np.minimum(INSIDE, 0.25 * (high - low))
    low, high = low + inside, high - inside
    hip = _from_hip(robot, foot, q)[0]
    names = [robot.joint_names[k] for k in rows]

    def error(angles: Array) -> Array:
        step = np.zeros(robot.nv)
        step[robot.tree.a[rows]] = angles
        there = robot.integrate(q, step)
        wanted = hip + np.array([*shift, -height])
        parts = [10.0 * (_contact(robot, foot, there) - wanted), 0.02 * angles]
        if foot.is_flat:  # the sole keeps its attitude
            parts.append(10.0 * (robot.frames.placement(foot.limb.frame, there).rotation - attitude).ravel())
        return np.concatenate(parts)

    base, attitude = robot.joint_angles(q)[rows], robot.frames.placement(foot.limb.frame, q).rotation
    rng = np.random.default_rng(0)
    starts = [np.clip(base, low, high) - base, *(rng.uniform(low, high) - base for _ in range(STARTS))]
    bounds = low - base - 1e-9, high - base + 1e-9
    solutions = [least_squares(error, np.clip(start, low - base, high - base), bounds=bounds) for start in starts]
    best = min(solutions, key=lambda solution: float(solution.cost))
    return dict(zip(names, (base + best.x).tolist(), strict=True))


SHOWN = 4  # warnings that are shown
SUFFIXES = (".urdf", ".xml", ".mjcf")  # of files that are models


GYRO = 3  # type of a sensor in MuJoCo


class Model(NamedTuple):
    """The file of a robot. path: of the URDF or MJCF; reference: how a configuration names it"""

    path: Path
    reference: str

    @property
    def is_mjcf(self) -> bool:
        return is_mjcf(read_text(self.path))

    def robot(self, base: str | None = None) -> Robot:
        """Return the robot. base: of a URDF, default what the file means; an MJCF has its own. Raises ModelError."""
        return Robot.from_file(self.path, None if self.is_mjcf else base)

    def interface(self, robot: Robot, q: Array) -> tuple[list[str], dict[str, Any], str]:
        """Return what of an MJCF a robot's own messages need: the joints of the motors in order, '' for none; settings of the
        estimator, {} without an IMU; the link of the IMU. q: level configuration in which it has its place"""
        if not self.is_mjcf:
            return [], {}, ""
        reading = Reading(self.path)
        m, names, joints = reading.model, reading.names, reading.model.actuator_trnid[:, 0]
        motors = [name if (name := names["joint", int(j)]) in robot.joint_names else "" for j in joints]
        gyros = (int(site) for site, kind in zip(m.sensor_objid, m.sensor_type, strict=True) if kind == GYRO)
        site = next((site for site in gyros if m.site_bodyid[site] in reading.bodies), None)
        if site is None or not motors:
            return motors, {}, ""
        link = names["body", int(m.site_bodyid[site])]
        R, p = robot.frames.placement(link, q)
        turn = Rotation.from_matrix(R) * Rotation.from_quat(np.roll(m.site_quat[site], -1))
        dofs = m.jnt_dofadr[joints]
        sensing = {"imu": R @ m.site_pos[site] + p - q[:3], "imu_quat": turn.as_quat(canonical=True)}
        sensing |= {"friction": np.median(m.dof_frictionloss[dofs]), "damping": np.median(m.dof_damping[dofs])}
        return motors, {name: (np.round(value, 7) + 0.0).tolist() for name, value in sensing.items()}, link

    def shapes(self, robot: Robot) -> tuple[list[Shape], list[str]]:
        """Return what may touch the ground, the collision shapes; and the meshes that cannot be read."""
        shapes, lost = collision_shapes(robot, list(self.path.parents))
        if self.is_mjcf:
            for link, points, triangles in Reading(self.path).meshes():
                shapes.append(mesh_shape(robot, link, Mesh(vertices=points, triangles=triangles)))
        return shapes, lost


def warnings_of(model: Model, robot: Robot) -> list[str]:
    """Return what of a URDF is ignored (mimics first) or doubtful, by element and line; `SHOWN` sentences, then how many."""
    if model.is_mjcf:
        return [f"{w.where}: {w.message}" for w in robot.inspect() if w.severity == "warning"]
    root = parse_urdf(robot.description.urdf, str(model.path))
    lines = {(part.tag, part.get("name", "?")): line for part, line in lines_of(root, robot.description.urdf).items()}
    warnings = [finding for finding in robot.inspect() if finding.severity == "warning"]
    warnings.sort(key=lambda finding: not finding.message.startswith("mimic"))
    said = [f"line {lines[w.element, w.where]}, {w.element} {w.where}: {w.message}" for w in warnings[:SHOWN]]
    more = len(warnings) - SHOWN
    return [*said, f"and {more} more warnings: idyn check {model.path}"] if more > 0 else said


def poses_of(model: Model, srdf: Path | None = None) -> list[Pose]:
    """Return the poses that a robot may stand in, the best first: of an SRDF file, by default of those beside the model, and of
    its keyframes. Raises ModelError for a given file without poses."""
    if srdf is not None:
        return srdf_poses(srdf)
    own = Reading(model.path).keyframes() if model.is_mjcf else []
    return poses_beside(model.path) + ordered(
        [(name, Pose(angles, f"keyframe '{name}' of {model.path.name}")) for name, angles in own]
    )


def is_model(word: str) -> bool:
    """Return whether a word names a model rather than a configuration."""
    return word.lower().endswith(SUFFIXES) or word.startswith((ROBOT_DATA, DESCRIPTIONS))


def find_model(word: str, folder: Path) -> Model:
    """Return the model that a user names: by a path, with the prefix of a collection, or by a robot's name.

    folder: of a relative path. A name is looked up in example-robot-data, then in robot_descriptions. Raises ConfigError.
    """
    if word.endswith(".xacro"):
        raise ConfigError(word, "xacro is not read: expand it first, `xacro robot.urdf.xacro > robot.urdf`")
    if word.startswith((ROBOT_DATA, DESCRIPTIONS)):
        return Model(urdf_path(word, folder), word)
    if word.lower().endswith(SUFFIXES) or "/" in word:
        if not (folder / word).is_file():
            raise ConfigError(word, "no such file")
        if not word.lower().endswith(SUFFIXES):
            raise ConfigError(word, f"expected a file that ends with {' or '.join(SUFFIXES)}")
        return Model(folder / word, str((folder / word).resolve()))
    return _by_name(word, folder)


def shared_models() -> list[str]:
    """Return the paths of all URDFs of example-robot-data below its robots folder; [] if it is not installed."""
    folder = shared_folder()
    return [] if folder is None else sorted(str(path.relative_to(folder)) for path in folder.rglob("*.urdf"))


def shared_names() -> dict[str, set[str]]:
    """Return the names of each URDF of example-robot-data: those of its file and of its folder, by its path."""
    return {path: {Path(path).stem, robot_name(path)} for path in shared_models()}


def draft_name(word: str, model: Model) -> str:
    """Return the name of a draft's file: the name of the robot that the user gave, or that of the model's file."""
    name = word.removeprefix(DESCRIPTIONS)
    is_name = not name.lower().endswith(SUFFIXES) and "/" not in name
    return f"{name if is_name else model.path.stem}.toml"


def _by_name(name: str, folder: Path) -> Model:
    names = shared_names()
    shared = list(names)
    found = [ROBOT_DATA + path for path in shared if name in names[path]]
    exact = [ROBOT_DATA + path for path in shared if {name} == names[path]] or found
    if len(exact) == 1:
        return Model(urdf_path(exact[0], folder), exact[0])
    if exact:
        raise ConfigError(name, f"several robots have this name; give one of them: {', '.join(exact)}")
    if has_descriptions():
        return Model(urdf_path(DESCRIPTIONS + name, folder), DESCRIPTIONS + name)
    if not shared:
        raise ConfigError(name, f"no such file; for robots by name: {install_command('robots')}, or [descriptions]")
    more = f"; for those of robot_descriptions: {install_command('descriptions')}"
    raise ConfigError(name, f"no such file or robot{nearest(name, set().union(*names.values()))}{more}")


def robot_name(path: str) -> str:
    """Return the name of the folder of a robot in example-robot-data, as `anymal_c` of `anymal_c_simple_description`."""
    return Path(path).parts[0].removesuffix("_description").removesuffix("_data").removesuffix("_simple")
