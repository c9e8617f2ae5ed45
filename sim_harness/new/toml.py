"""The text of a draft: TOML with comments, and only what differs from the defaults."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from idyn.model.description import ContactPoint, Sole
from sim_harness.new.limbs import Foot
from sim_harness.new.source import Pose

SPEED = 0.2
"""Speed of the trot × period / hip height. At 0.4 the knees of ANYmal C are at their torque limits in a quarter of the time."""


WAY = 2.0  # length of the walk on two legs [m]

TICK = "period = 0.002                    # s\n"  # of states over `idyn bridge unitree`
SOFT = f"""[controller]
{TICK}
[controller.feedback]             # soft, as torques act late
kp = 200.0                        # 1/s²
kd = 40.0                         # 1/s

"""


def header(name: str, found: Sequence[str]) -> str:
    lines = [f"{name}: drafted by `idyn new`. What is left out has its default (`idyn list settings`)."]
    return "".join(f"# {line}\n" for text in [*lines, *found] for line in textwrap.wrap(text, 118))


def robot_section(reference: str, feet: Sequence[Foot], pose: Pose, motors: Sequence[str] = ()) -> str:
    lines = ["[robot]", f'urdf = "{reference}"']
    if motors:
        rows = textwrap.wrap(", ".join(f'"{name}"' for name in motors), 110, initial_indent="    ", subsequent_indent="    ")
        lines += ["motors = [    # in the order of the robot's own messages", *rows, "]"]
    points = [point for foot in feet if not isinstance(foot.places, Sole) for point in foot.places]
    if points:
        lines += ["contact = [", *(f"    {_point(place)}," for place in points), "]"]
    text = "\n".join(lines) + "\n"
    for foot in feet:
        if isinstance(foot.places, Sole):
            sole = foot.places
            text += f'\n[[robot.sole]]\nframe = "{sole.frame}"\nlength = {sole.length}          # m\nwidth = {sole.width}\n'
            text += f"offset = {list(sole.offset)}\nmu = {sole.mu}\n"
    return text + "\n" + table("robot.standing", f"rad; {pose.source}", pose.angles)


def fixed_section(reference: str, pose: Pose) -> str:
    """Return robot and controller of a robot that is fixed to the world."""
    lines = ["[robot]", f'urdf = "{reference}"', 'base = "fixed"']
    safety = "[controller.safety]\ntorque_rate = inf       # N·m/s; not limited\n"
    return "\n".join([*lines, "", table("robot.standing", f"rad; {pose.source}", pose.angles), safety])


def _point(place: ContactPoint) -> str:
    parts = [f'frame = "{place.frame}"']
    if any(place.offset):
        parts.append(f"offset = {list(place.offset)}")
    return f"{{ {', '.join([*parts, f'radius = {place.radius}', f'mu = {place.mu}'])} }}"


def table(name: str, comment: str, values: dict[str, float]) -> str:
    rows = "".join(f"{_key(key)} = {angle}\n" for key, value in values.items() if (angle := round(float(value), 6)))
    return f"[{name}]          # {comment}\n{rows}"


def _key(name: str) -> str:
    """Return a TOML key: bare if it may be, else quoted."""
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else f'"{name}"'


def controller_section(stiffness: float, height: float, *, walks: bool, slow: bool) -> str:
    """Return gains by the rule of the guide: joints of the controller carry half of, those of the drives one times weight × hip
    height [N·m/rad]; damping is 3 and 1 % of that.

    slow: see `two_legs_section`; as torques act late, more of the feedback is then on torque, and less on acceleration
    """
    share, soft = (1.0, SOFT) if slow else (0.5, "")
    text = f"""{soft}[controller.torque_feedback]      # added to the law's torque
kp = {rounded(share * stiffness)}               # N·m/rad: weight × hip height{"" if slow else " / 2"}
kd = {rounded(0.01 * (0.5 + 2.0 * share) * stiffness)}             # N·m·s/rad

{_drive(stiffness)}"""
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
step_height = {rounded(0.1 * height)}              # m

[controller.reference.path]
velocity = [{rounded(SPEED * height / period)}, 0.0, 0.0]    # m/s, m/s, rad/s
"""


def _drive(stiffness: float) -> str:
    return f"""[controller.drive]                # in the drives, while replies are missing
kp = {rounded(stiffness)}
kd = {rounded(0.01 * stiffness)}

[controller.safety]
torque_rate = inf                 # N·m/s; not limited
"""


def estimator_section(sensing: Mapping[str, Any]) -> str:
    """Return the estimator of a base that is not measured."""
    head = "[controller.estimator]            # where only an IMU, the joints and their torques are measured"
    return "\n".join([head, *(f"{name} = {value}" for name, value in sensing.items()), ""])


def two_legs_section(
    stiffness: float, height: float, margin: float, *, period: float, width: float, walks: bool, slow: bool
) -> str:
    """Return the controller of a robot on two soles, which balances by tasks.

    height: of the hips [m]; margin: of the centre of pressure from the edges of the soles [m]
    period, width: of the steps [s, m]; width 0: as in the stance
    slow: whether states come every 2 ms, as over `idyn bridge unitree`
    """
    speed, lasts = way_on_two_legs(height)
    commands = f"[[{lasts}, {speed}, 0.0, 0.0]]" if walks else "[]"
    wide = f"width = {rounded(width)}                      # m\n" if width else ""
    tick = TICK if slow else ""
    return f"""[controller]
{tick}speed_memory = 0.005              # s, against noise of measured speeds

[controller.contact]
source = "planner"                # feet that are planned to stand; of these, those that touch
whole_soles = true
mu = 0.6                          # of soles that should not slip

[controller.reference]
kind = "two-legs"
start = 1.0                       # s
commands = {commands}    # duration [s], forward, left [m/s], turn [rad/s]

[controller.reference.step]
period = {round(period, 2)}                     # s
height = {rounded(0.065 * height)}                    # m
longest = {rounded(0.45 * height)}                   # m
{wide}acceleration = {speed}                # m/s², rad/s²

[controller.reference.balance]
lower = {rounded(0.04 * height)}                     # m, of the centre of mass
margin = {rounded(margin)}                    # m, of the centre of pressure from the edges of the soles

[controller.feedback]             # of the posture of arms and waist
kp = 100.0                        # 1/s²
kd = 20.0                         # 1/s

{_drive(stiffness)}damping = {rounded(0.01 * stiffness)}                     # N·m·s/rad
"""


def way_on_two_legs(height: float) -> tuple[float, float]:
    """Return the speed [m/s] and the duration [s] of a walk on two legs, as a pendulum of the height of the hips would [m]."""
    speed = rounded(0.3 * float(np.sqrt(height / 0.75)))
    return speed, round(WAY / speed + 1.0, 1)


def experiment_section(*, mujoco: bool, switches: bool = False, duration: float = 10.0) -> str:
    """Return the experiment. mujoco: in MuJoCo, not in the default engine; switches: of the feet; duration: [s]"""
    lines = ["[experiment]", 'laws = ["coulomb"]']
    lines += ['engine = "mujoco"'] if mujoco else []
    lines += ['contacts = "binary"               # foot switches'] if switches else []
    lines += [
        f"duration = {duration}                   # s",
        "paced = false                     # as fast as possible, in one process",
    ]
    return "\n".join([*lines, ""])


def rounded(value: float) -> float:
    """Return a number with two significant digits."""
    return float(f"{value:.2g}")
