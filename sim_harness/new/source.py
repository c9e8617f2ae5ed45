"""The model that a draft is made from: a URDF or an MJCF, given by a path or by a name of a collection of robots."""

from pathlib import Path
from typing import NamedTuple

from controllers.robot.load import DESCRIPTIONS, ROBOT_DATA, has_descriptions, shared_folder, urdf_path
from idyn.errors import ConfigError, nearest
from idyn.extras import install_command
from idyn.model.build import read_text
from idyn.model.mjcf import Reading, is_mjcf
from idyn.model.robot import Robot
from idyn.model.urdf import lines_of, parse_urdf
from sim_harness.new.pose import Pose, ordered, poses_beside, srdf_poses
from sim_harness.shapes import Mesh, Shape, collision_shapes, mesh_shape

SHOWN = 4
"""Warnings that are shown."""

SUFFIXES = (".urdf", ".xml", ".mjcf")
"""Of files that are models."""


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
    """Return the model with a name in one of the collections. Raises ConfigError."""
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
