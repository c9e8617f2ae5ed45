"""A configuration drafted from a URDF: what the robot is, how it stands, and with which gains."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from controllers.robot.stance import standing
from idyn.errors import ModelError
from idyn.model.description import ContactPoint, Sole
from idyn.model.robot import Robot
from idyn.types import Array
from sim_harness.new.limbs import Foot, feet_of
from sim_harness.new.pose import Pose, below_the_hips, fits, heights_of, known_angles, level, middle, srdf_poses
from sim_harness.view.shapes import collision_shapes

LEVEL = 0.02
"""Largest difference between the heights of the feet of a pose that is used as it is [m]."""


EXACT = 1e-5
"""Difference of these heights that needs no correction [m]."""


class Draft(NamedTuple):
    """A configuration in one file. text: TOML; found: what was found or guessed, and from where; legs: number of feet"""

    text: str
    found: tuple[str, ...]
    legs: int


def draft(path: Path, reference: str, *, stand: bool = False) -> Draft:
    """Return the draft for a URDF. reference: how the file names it; stand: without a gait

    Raises ModelError for a URDF that cannot be simulated, or that has no joint with a motor.
    """
    robot = Robot.from_urdf(path)
    if not robot.na:
        raise ModelError(f"{path}: expected at least one joint with a motor, got none")
    pose, q = _first_pose(robot, path)
    feet = feet_of(robot, collision_shapes(robot, list(path.parents)), q)
    if len(feet) < 2:
        return _arm(path, reference)
    legged = robot.variant(contact=_places(feet))
    found = [f"{len(feet)} feet: {foot_list(feet)}"]
    if pose is None or _spread(legged, feet, standing(legged, pose.angles)) > LEVEL:
        pose = below_the_hips(legged, feet, q)
    if _spread(legged, feet, standing(legged, pose.angles)) > EXACT:
        pose = level(legged, feet, pose, standing(legged, pose.angles))
    found.append(f"standing: {pose.source}")
    stance = standing(legged, pose.angles)
    height = _hip_height(legged, feet, stance)
    found.append(f"{legged.total_mass:.4g} kg, hips {height:.3g} m above the ground")
    no_effort = [name for name, most in zip(legged.joint_names, legged.limits.tau_max, strict=True) if not most > 0.0]
    walks = len(feet) == 4 and not stand and all(len(foot.limb.joints) == 3 for foot in feet)
    sections = [_robot_section(reference, feet, pose, no_effort), _controller_section(legged.weight * height, height, walks)]
    if len(feet) == 2 and not all(foot.is_flat for foot in feet):
        found.append("two feet without soles do not stand still: this robot falls")
    if no_effort:
        found.append(f"no torque limit in the URDF: {', '.join(no_effort)}")
    return Draft("\n".join([_header(path, found), *sections, _experiment_section(walks)]), tuple(found), len(feet))


def foot_list(feet: Sequence[Foot]) -> str:
    """Return the frames of feet and where their sizes come from."""
    sources: dict[str, list[str]] = {}
    for foot in feet:
        sources.setdefault(foot.source, []).append(foot.limb.frame)
    return "; ".join(f"{', '.join(frames)} ({source})" for source, frames in sources.items())


def _first_pose(robot: Robot, path: Path) -> tuple[Pose | None, Array]:
    """Return a pose of an SRDF file, or None, and the configuration in which feet are looked for."""
    for pose in srdf_poses(path):
        if fits(robot, pose):
            own = Pose(known_angles(robot, pose), pose.source)
            return own, standing(robot, own.angles)
    return None, standing(robot, middle(robot))


def _places(feet: Sequence[Foot]) -> tuple[ContactPoint, ...]:
    return tuple(point for foot in feet for point in foot.points)


def _spread(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the difference between the heights of the contact places [m]."""
    return float(np.ptp(np.concatenate([heights_of(robot, foot, q) for foot in feet])))


def _hip_height(robot: Robot, feet: Sequence[Foot], q: Array) -> float:
    """Return the mean height of the first joints of the legs above the feet [m]."""
    placements = robot.terms(q, np.zeros(robot.nv)).placements
    return float(np.mean([placements[foot.limb.joints[0], 11] - heights_of(robot, foot, q).min() for foot in feet]))


def _arm(path: Path, reference: str) -> Draft:
    """Return the draft of a robot that is fixed to the world."""
    robot = Robot.from_urdf(path, base="fixed")
    pose = next((pose for pose in srdf_poses(path) if fits(robot, pose)), None)
    angles = middle(robot) if pose is None else known_angles(robot, pose)
    source = "zero, or inside the limits" if pose is None else pose.source
    found = [f"no legs: fixed to the world, {robot.na} joints, {robot.total_mass:.4g} kg", f"standing: {source}"]
    no_effort = [name for name, most in zip(robot.joint_names, robot.limits.tau_max, strict=True) if not most > 0.0]
    text = "\n".join(
        [
            _header(path, found),
            f'[robot]\nurdf = "{reference}"\nbase = "fixed"\n{_limits(no_effort)}',
            _table("robot.standing", "rad", angles),
            "[controller.safety]\ntorque_rate = inf       # N·m/s; not limited\n",
            _experiment_section(walks=False),
        ]
    )
    return Draft(text, tuple(found), 0)


def _header(path: Path, found: Sequence[str]) -> str:
    lines = [f"{path.name}: drafted by `idyn new`. What is left out has its default (`idyn list settings`)."]
    return "".join(f"# {line}\n" for text in [*lines, *found] for line in textwrap.wrap(text, 118))


def _robot_section(reference: str, feet: Sequence[Foot], pose: Pose, no_effort: Sequence[str]) -> str:
    lines = ["[robot]", f'urdf = "{reference}"']
    points = [point for foot in feet if not isinstance(foot.places, Sole) for point in foot.places]
    if points:
        lines += ["contact = [", *(f"    {_point(place)}," for place in points), "]"]
    text = "\n".join(lines) + "\n" + _limits(no_effort)
    for foot in feet:
        if isinstance(foot.places, Sole):
            sole = foot.places
            text += f'\n[[robot.sole]]\nframe = "{sole.frame}"\nlength = {sole.length}          # m\nwidth = {sole.width}\n'
            text += f"offset = {list(sole.offset)}\nmu = {sole.mu}\n"
    return text + "\n" + _table("robot.standing", f"rad; {pose.source}", pose.angles)


def _point(place: ContactPoint) -> str:
    parts = [f'frame = "{place.frame}"']
    if any(place.offset):
        parts.append(f"offset = {list(place.offset)}")
    return f"{{ {', '.join([*parts, f'radius = {place.radius}', f'mu = {place.mu}'])} }}"


def _limits(no_effort: Sequence[str]) -> str:
    if not no_effort:
        return ""
    return f"tau_max = {{ {', '.join(f'{_key(name)} = inf' for name in no_effort)} }}     # N·m; the URDF has none\n"


def _table(name: str, comment: str, values: dict[str, float]) -> str:
    rows = "".join(f"{_key(key)} = {round(float(value), 6)}\n" for key, value in values.items())
    return f"[{name}]          # {comment}\n{rows}"


def _key(name: str) -> str:
    """Return a TOML key: bare if it may be, else quoted."""
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else f'"{name}"'


def _controller_section(stiffness: float, height: float, walks: bool) -> str:
    """Return gains by the rule of the guide: joints of the controller carry half of, those of the drives one times weight × hip
    height [N·m/rad]; damping is 3 and 1 % of that."""
    text = f"""[controller.torque_feedback]      # added to the law's torque
kp = {_rounded(0.5 * stiffness)}               # N·m/rad: weight × hip height / 2
kd = {_rounded(0.015 * stiffness)}             # N·m·s/rad

[controller.drive]                # in the drives, while replies are missing
kp = {_rounded(stiffness)}
kd = {_rounded(0.01 * stiffness)}

[controller.safety]
torque_rate = inf                 # N·m/s; not limited
"""
    if not walks:
        return text
    period = round(0.5 * float(np.sqrt(height / 0.45)), 2)
    return f"""{text}
[controller.contact]
source = "planner"                # feet that are planned to stand

[controller.reference]
kind = "gait"

[controller.reference.gait]
period = {period}                     # s
duty = 0.7
step_height = {_rounded(0.1 * height)}              # m

[controller.reference.path]
velocity = [{_rounded(0.4 * height / period)}, 0.0, 0.0]    # m/s, m/s, rad/s
"""


def _experiment_section(walks: bool) -> str:
    contacts = '\ncontacts = "binary"               # foot switches' if walks else ""
    return f"""[experiment]
laws = ["coulomb"]
engine = "mujoco"{contacts}
duration = 10.0                   # s
paced = false                     # as fast as possible, in one process
"""


def _rounded(value: float) -> float:
    """Return a number with two significant digits."""
    return float(f"{value:.2g}")
