"""Shapes of a robot's URDF for display, each fixed to a joint. This is the only module that uses Pinocchio's geometry."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from idyn.errors import ConfigError, ModelError, missing_extra
from idyn.model.robot import Robot
from idyn.model.urdf import without_shapes
from idyn.types import Array, Record

MOST = 30_000  # largest number of triangles of a mesh; such a mesh takes about 0.7 MB in a page
CELL = 0.0005  # initial edge length of the cells in which `thinned` merges vertices [m]; on a screen it is smaller than a pixel


class Mesh(Record, frozen=True):
    """A triangle mesh."""

    # in the frame of the shape [m] (n, 3); triangles: rows of `vertices`, anticlockwise seen from outside (m, 3)
    vertices: Array
    triangles: Array


def load_meshes(path: Path, scale: Array) -> list[tuple[Mesh, tuple[float, ...] | None]]:
    """Load the meshes of a file, one for each material, with their colours if the file has any. Raises ConfigError.

    Pinocchio's loader is not used: it mixes up the vertices of the meshes of a Collada node that has several.
    """
    try:
        import trimesh  # noqa: PLC0415  (extra)
    except ImportError as error:
        raise missing_extra("view", "showing meshes", "trimesh", "viz") from error
    try:
        parts: Any = trimesh.load_scene(path).dump()
    except (ValueError, OSError) as error:
        raise ConfigError(str(path), f"expected a readable mesh ({error})") from error
    found = [(thinned(_mesh(part, scale), MOST), _colour_of(part)) for part in parts if len(part.faces)]
    if not found:
        raise ConfigError(str(path), "expected a mesh with triangles, got none")
    return found


def _mesh(part: Any, scale: Array) -> Mesh:
    part.merge_vertices(merge_tex=True, merge_norm=True)
    triangles = np.array(part.faces, dtype=np.int64)
    return Mesh(vertices=part.vertices * scale, triangles=triangles[:, ::-1] if np.prod(scale) < 0 else triangles)


def _colour_of(part: Any) -> tuple[float, ...] | None:
    material = getattr(part.visual, "material", None)
    return None if material is None else tuple((material.main_color[:3] / 255).tolist())


def thinned(mesh: Mesh, most: int) -> Mesh:
    """Return the mesh simplified to at most `most` triangles.

    The vertices in each cell of a cubic grid are merged, with the finest grid that suffices. No vertex moves further than the
    diagonal of a cell.
    """
    cell, thin = CELL, mesh
    while len(thin.triangles) > most:
        thin = _merged(mesh, cell)
        cell *= 1.3
    return thin


def _merged(mesh: Mesh, cell: float) -> Mesh:
    """Replace all vertices of a cell by their mean; remove degenerate and repeated triangles."""
    cells = np.floor(mesh.vertices / cell).astype(np.int64)
    _, place, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    vertices = np.stack([np.bincount(place, weights=mesh.vertices[:, i]) / count for i in range(3)], axis=1)
    triangles = place[mesh.triangles]
    whole = (triangles != np.roll(triangles, 1, axis=1)).all(axis=1)
    turned = np.argmin(triangles, axis=1)[:, None]  # rotate to the smallest index first; this preserves the orientation
    triangles = np.take_along_axis(triangles, (turned + np.arange(3)) % 3, axis=1)[whole]
    return Mesh(vertices=vertices, triangles=np.unique(triangles, axis=0))


GREY = (0.62, 0.65, 0.69)  # colour of a shape without a colour
SHOWN = 3  # names of meshes in one sentence

Kind = Literal["box", "sphere", "cylinder", "mesh"]


class Shape(Record, frozen=True):
    """A rigid shape."""

    joint: int  # index of the joint that carries it, 0 for the world
    kind: Kind
    size: tuple[
        float, ...
    ]  # "box": three edges; "sphere": radius; "cylinder": radius, length along z [m], all centred; "mesh": ()
    placement: Array  # pose of its frame in the joint frame, position [m] and quaternion xyzw (7)
    colour: tuple[float, ...]  # red, green, blue from 0 to 1; opacity: from 0 to 1
    mesh: Mesh | None = None
    opacity: float = 1.0


class Look(Record, frozen=True):
    """Shapes of a robot. note: reason why they are not the visuals of the URDF, '' if they are"""

    shapes: list[Shape]
    note: str


def look_of(robot: Robot, folders: Sequence[Path]) -> Look:
    """Return the visuals of the URDF. If mesh files are missing: the collision shapes or else sticks between the joints.

    folders: roots of `package://` paths, besides `ROS_PACKAGE_PATH`
    """
    model, notes = _model(robot), []
    for kind in ("visual", "collision"):
        geometry, missing = _geometry(model, robot.description.urdf, kind, folders)
        if missing and kind == "visual":
            notes.append(f"visual shapes: {missing_text(missing)}")
        elif geometry.ngeoms:
            return Look(shapes=_shapes(geometry), note="; ".join(notes))
        else:
            notes.append(f"the URDF has no {kind} shapes")
    return Look(shapes=_sticks(robot, model), note="; ".join(notes))


def collision_shapes(robot: Robot, folders: Sequence[Path]) -> tuple[list[Shape], list[str]]:
    """Return the collision shapes of the URDF, without any its visuals; and the meshes that cannot be read, which are left out.
    folders: see `look_of`"""
    model, lost = _model(robot), []
    for kind in ("collision", "visual"):
        geometry, missing = _geometry(model, robot.description.urdf, kind, folders)
        lost += missing
        if geometry.ngeoms:
            return _shapes(geometry), lost
    return [], lost


def missing_text(meshes: Sequence[str]) -> str:
    """Return a sentence about meshes that cannot be read."""
    shown = ", ".join(meshes[:SHOWN]) + (f" and {len(meshes) - SHOWN} more" if len(meshes) > SHOWN else "")
    return f"{'mesh' if len(meshes) == 1 else 'meshes'} not found: {shown}"


def _model(robot: Robot) -> Any:
    root = (pin.JointModelFreeFlyer(),) if robot.floating else ()
    return pin.buildModelFromXML(without_shapes(robot.description.urdf), *root)


def _geometry(model: Any, urdf: str, kind: str, folders: Sequence[Path]) -> tuple[Any, list[str]]:
    """Return the shapes of a URDF without the meshes that cannot be read, and the names of these. kind: visual or collision"""
    text, where = without_shapes(urdf, kind), [str(folder) for folder in folders]
    missing: list[str] = []
    known = pin.GeometryType.VISUAL if kind == "visual" else pin.GeometryType.COLLISION
    while True:
        try:
            return pin.buildGeomFromUrdfString(model, text, known, package_dirs=where), missing
        except ValueError as error:
            robot = ElementTree.fromstring(text)
            lost = [
                (link, shape, mesh.get("filename", ""))
                for link in robot.findall("link")
                for shape in link.findall(kind)
                if (mesh := shape.find("geometry/mesh")) is not None and mesh.get("filename", "") in str(error)
            ]
            if not lost:
                raise ModelError(f"{kind} shapes: {str(error).splitlines()[0]}") from error
            for link, shape, name in lost:
                link.remove(shape)
                missing += [name] if name not in missing else []
            text = ElementTree.tostring(robot, encoding="unicode")


def mesh_shape(robot: Robot, link: str, mesh: Mesh) -> Shape:
    """Return a mesh whose vertices are in the frame of a link."""
    frame = robot.frames.attached(link)
    placement = _placement(pin.SE3(frame.offset[:9].reshape(3, 3), frame.offset[9:]))
    return Shape(joint=frame.joint, kind="mesh", size=(), placement=placement, colour=GREY, mesh=mesh)


def _shapes(geometry: Any) -> list[Shape]:
    files: dict[tuple[Any, ...], list[tuple[Mesh, tuple[float, ...] | None]]] = {}  # meshes of a file, shared by all its shapes
    shapes = []
    for item in geometry.geometryObjects:
        if not Path(item.meshPath).is_file():
            shapes.extend(_primitives(item))
            continue
        key = item.meshPath, *item.meshScale
        if key not in files:
            files[key] = load_meshes(Path(item.meshPath), np.array(item.meshScale))
        own = len(files[key]) > 1 or not item.overrideMaterial  # a URDF has a single colour for all materials of a file
        for mesh, painted in files[key]:
            colour = painted if own and painted else _colour(item)
            placement, joint = _placement(item.placement), int(item.parentJoint)
            shapes.append(Shape(joint=joint, kind="mesh", size=(), placement=placement, colour=colour, mesh=mesh))
    return shapes


def _primitives(item: Any) -> list[Shape]:
    """Return the shapes of a primitive: box, sphere, cylinder, or a capsule as cylinder and two spheres; [] for any other."""
    body, joint, colour = item.geometry, int(item.parentJoint), _colour(item)

    def shape(kind: Kind, size: Sequence[float], z: float = 0.0) -> Shape:
        place = item.placement * pin.SE3(np.eye(3), np.array([0.0, 0.0, z]))
        return Shape(joint=joint, kind=kind, size=tuple(map(float, size)), placement=_placement(place), colour=colour)

    match type(body).__name__:
        case "Box":
            return [shape("box", 2 * body.halfSide)]
        case "Sphere":
            return [shape("sphere", [body.radius])]
        case "Cylinder":
            return [shape("cylinder", [body.radius, 2 * body.halfLength])]
        case "Capsule":
            ends = [shape("sphere", [body.radius], z) for z in (-body.halfLength, body.halfLength)]
            return [shape("cylinder", [body.radius, 2 * body.halfLength]), *ends]
    return []


def _colour(item: Any) -> tuple[float, ...]:
    return tuple(round(float(part), 3) for part in item.meshColor[:3]) if item.overrideMaterial else GREY


def _sticks(robot: Robot, model: Any) -> list[Shape]:
    """Return thin cylinders from each joint to its child joints and to its contact points."""
    ends = [
        (int(model.parents[child]), np.array(model.jointPlacements[child].translation)) for child in range(2, model.njoints)
    ]
    ends += zip(robot.spheres.joints.tolist(), robot.spheres.offsets, strict=True)
    shapes = []
    for joint, end in ends:
        length = float(np.linalg.norm(end))
        if length > 0.0:
            turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), end)
            placement = _placement(pin.SE3(turn, 0.5 * end))
            size = (min(0.05 * length, 0.02), length)
            shapes.append(Shape(joint=joint, kind="cylinder", size=size, placement=placement, colour=GREY))
    return shapes


def _placement(place: Any) -> Array:
    return np.array(pin.SE3ToXYZQUAT(place))
