"""Runs whose ends follow from what is done to the robot, each with the verdict that it must have.

`python tests/sim_harness/known_ends.py` runs them and prints a table.
"""

import json
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from controllers.config.loading import find
from sim_harness.commands.main import main
from sim_harness.measure.verdict import GOOD, Ending


class Known(NamedTuple):
    """A run with a known end. what: what is done to the robot; ending: its verdict; toml: the experiment; text: words that the
    verdict must contain; noted: words that its notes must contain; world: the MJCF that the experiment names walker.xml, '' for
    none"""

    what: str
    ending: Ending
    toml: str
    text: str = ""
    noted: str = ""
    world: str = ""

    @property
    def exit_code(self) -> int:
        return 0 if self.ending in GOOD else 1


LAW = 'laws = ["coulomb"]\npaced = false\n'
STAND = f'server = "quadruped"\nengine = "penalty"\nduration = 2.0\n{LAW}'
SWAY = 'server = "paper-stand"\nengine = "lcp"\npaced = false\nduration = 1.5\ncontroller.reference = { kind = "sway" }\n'
TROT = f'server = "quadruped-trot"\nengine = "penalty"\ncontacts = "binary"\nduration = 3.0\n{LAW}'
SHORT = f'engine = "lcp"\nduration = 0.6\n{LAW}'
OPEN = f'[robot]\nurdf = "{find("robots", "arm").parent / "arm.urdf"}"\nbase = "fixed"\n[experiment]\n{SHORT}'
FIXED = f"""[robot]
urdf = "{find("robots", "quadruped").parent / "quadruped.urdf"}"
base = "fixed"
[controller]
contact.ground = -1.0
feedback = {{ kp = 100.0, kd = 20.0 }}
[experiment]
{SHORT}"""
LIFT = '[[experiment.push]]\nframe = "LF_FOOT"\nforce = [0.0, 0.0, 0.3]\nstart = 0.2\nduration = 1.0\n'
PATH = "controller.reference.path = "
AHEAD = PATH + "{ waypoints = [], velocity = [0.2, 0.0, 0.0] }\n"
ARM = f'server = "arm"\n{SHORT}controller.contact.mu = 1.0\n'
SILENT = "robot.link.lost_torques = { every = 1.2, length = 0.6 }\n"

OFFSET = "robot.sensing.offset."
STILL = PATH + "{ waypoints = [] }\n"
ICE, WET = "robot.ground.mu = 0.02\n", "robot.ground.mu = 0.05\n"
ON_ICE = TROT + STILL + ICE
EAGER = "controller.torque_feedback = { kp = 2.0, kd = 3.0 }\n"
DEAF = 'contacts = "binary"\nrobot.sensing.touch_threshold = 100.0\n'
LYING = f'server = "quadruped-lying"\nengine = "mujoco"\nlying = "belly"\nrobot.hulls = true\n{LAW}'
LEGS = [(side + end, x, y) for end, x in (("F", 0.2), ("H", -0.2)) for side, y in (("L", 0.12), ("R", -0.12))]
"""Legs of a walker in MJCF: names, and places of the hips [m]. Thighs and shanks are 0.2 m long."""

WALKER = f"""[robot]
urdf = "walker.xml"
armature = {{ {", ".join(f"{leg}_knee = 0.0017" for leg, *_ in LEGS)} }}
contact = [{", ".join(f'{{ frame = "{leg}_shank", offset = [0.0, 0.0, -0.2], radius = 0.02 }}' for leg, *_ in LEGS)}]

[robot.standing]
{"".join(f"{leg}_hip = 0.6{chr(10)}{leg}_knee = -1.2{chr(10)}" for leg, *_ in LEGS)}
[controller]
torque_feedback = {{ kp = 14.0, kd = 0.42 }}
drive = {{ kp = 28.0, kd = 0.28 }}
safety.torque_rate = inf

[experiment]
engine = "mujoco"
duration = 1.0
{LAW}"""


def walker(around: str = "", floor: str = "", feet: str = "") -> str:
    """Return the MJCF of a walker whose trunk, 0.37 m high, has its underside 0.33 m above the ground at first. around: further
    shapes of the world; floor, feet: attributes of these shapes"""
    rest, legs = 'contype="0" conaffinity="0"', ""
    for leg, x, y in LEGS:
        legs += f"""<body name="{leg}_thigh" pos="{x} {y} 0"><joint name="{leg}_hip" axis="0 1 0" range="-1.5 1.5"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.015" mass="0.3" {rest}/>
        <body name="{leg}_shank" pos="0 0 -0.2"><joint name="{leg}_knee" axis="0 1 0" range="-2.5 -0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.012" mass="0.1" {rest}/>
        <geom size="0.02" pos="0 0 -0.2" mass="0.05" {feet}/></body></body>"""
    motors = "".join(f'<motor joint="{leg}_{joint}" ctrlrange="-30 30"/>' for leg, *_ in LEGS for joint in ("hip", "knee"))
    return f"""<mujoco model="walker"><compiler angle="radian"/><worldbody>
        <geom type="plane" size="5 5 1" {floor}/>{around}
        <body name="trunk" pos="0 0 0.35"><freejoint/><geom type="box" size="0.25 0.1 0.02" mass="5"/>{legs}</body>
        </worldbody><actuator>{motors}</actuator></mujoco>"""


def block(x: float, length: float, height: float) -> str:
    """Return a box on the ground below the trunk, from x - length to x + length [m]."""
    return f'<geom type="box" size="{length} 0.08 {0.5 * height}" pos="{x} 0 {0.5 * height}"/>'


def couple(share: float, start: float, duration: float) -> str:
    """Return two pushes that turn the robot about the vertical, each of a share of the weight, 0.15 m before and behind."""
    when = f"start = {start}\nduration = {duration}\n"
    ends = (f"[[push]]\nweights = [0.0, {s * share}, 0.0]\npoint = [{s * 0.15}, 0.0, 0.0]\n" for s in (1, -1))
    return "".join(end + when for end in ends)


def push(x: float, y: float, start: float, duration: float) -> str:
    """Return a push of x and y times the weight from `start` on [s]."""
    return f"[[push]]\nweights = [{x}, {y}, 0.0]\nstart = {start}\nduration = {duration}\n"


def stopped(what: str, seconds: float, imperfection: str, alarm: str) -> Known:
    """Return a run that an alarm ends before the robot, which damps then, has fallen; the alarm degraded the status before."""
    return Known(what, Ending.STOPPED, STAND.replace("2.0", str(seconds)) + imperfection, alarm, alarm)


ASIDE = TROT + AHEAD + WET + push(0.0, 0.05, 0.5, 2.0)
KNOWN = (
    Known("stands undisturbed", Ending.STOOD, STAND),
    Known("sways on its feet", Ending.STOOD, SWAY + 'laws = ["coulomb"]\n'),
    Known("is pushed by a tenth of its weight", Ending.STOOD, STAND + push(0.1, 0.0, 0.5, 0.2)),
    Known("is pushed over", Ending.FELL, STAND + push(0.0, 6.0, 0.5, 0.2), "base turns"),
    Known("has motors of a fiftieth of their torque", Ending.FELL, STAND + "robot.drive.strength = 0.02\n", "motor"),
    Known("is pushed on ice", Ending.SLID, STAND + "robot.ground.mu = 0.02\n" + push(0.1, 0.0, 0.5, 0.5)),
    Known("shall sway by a law that keeps it still", Ending.NEVER_MOVED, SWAY + 'laws = ["convex"]\n'),
    Known("walks along its path", Ending.WALKED, TROT + AHEAD),
    Known(
        "walks to its last waypoint", Ending.WALKED, TROT + PATH + "{waypoints = [[0.2, 0]], repeat = false}\n", "walked 0.20 m"
    ),
    Known("turns in place", Ending.WALKED, TROT + PATH + "{ waypoints = [], velocity = [0.0, 0.0, 0.5] }\n", "rad"),
    Known("walks on ice", Ending.NEVER_MOVED, TROT + AHEAD + "robot.ground.mu = 0.001\n"),
    Known("walks on wet ice", Ending.WALKED_PART, TROT + AHEAD + "robot.ground.mu = 0.01\n"),
    Known("is pushed over while it walks", Ending.FELL, TROT + push(0.0, 4.0, 1.0, 0.2)),
    Known("gets no torques any more", Ending.STOPPED, STAND + SILENT, "failsafe (stopped)"),
    Known("gets no torques any more while it walks", Ending.STOPPED, TROT + SILENT, "failsafe (stopped)"),
    Known("loses its torques and is pushed over", Ending.FELL, STAND + SILENT + push(0.0, 6.0, 1.5, 0.2), "failsafe (stopped)"),
    Known("sends states that are 60 ms old", Ending.FELL, STAND + "robot.link.state_delay = 60\n"),
    Known("carries its box", Ending.HELD, ARM, "held its box"),
    Known("carries its box with smooth fingers", Ending.DROPPED, ARM + "robot.ground.mu = 0.01\n"),
    Known("holds still while its box falls", Ending.DRIFTED, OPEN, "BOX_FREE"),
    Known("carries its box with motors of a fiftieth of their torque", Ending.STOPPED, ARM + "robot.drive.strength = 0.02\n"),
    Known("tells a speed of 50 rad/s at rest", Ending.REFUSED, ARM + "robot.sensing.bias.joint_speed = 50.0\n"),
    Known("lies on its belly and gets up", Ending.GOT_UP, LYING + "duration = 3.0\n"),
    Known("lies on its belly for a second", Ending.LAY, LYING + "duration = 1.0\n"),
    Known("has feet that sink into the ground", Ending.FELL, STAND.replace('"penalty"', '{ kind = "penalty", kp = 10.0 }')),
    Known("is pushed out of the numbers of the simulation", Ending.FAILED, STAND + push(1e150, 0.0, 0.5, 0.2)),
    Known("is turned on ice", Ending.SPUN, STAND + "robot.ground.mu = 0.0\n" + couple(0.02, 0.2, 0.3)),
    Known("is turned on ice while it trots in place", Ending.SPUN, ON_ICE + couple(0.03, 0.5, 0.5), "", "0.02 of 0.02"),
    Known("is pushed on ice while it trots in place", Ending.DRIFTED, ON_ICE + push(0.05, 0.05, 0.5, 1.0), "base"),
    Known("trots in place", Ending.STOOD, TROT + STILL),
    Known("is pushed aside on a wet floor while it walks ahead", Ending.DRIFTED, ASIDE, "from its path", "0.05 of 0.05"),
    Known("walks on a wet floor", Ending.WALKED, TROT + AHEAD + WET, "", "0.05 of 0.05"),
    Known("is fixed at its trunk", Ending.HELD, FIXED),
    Known("is fixed at its trunk while a foot is lifted", Ending.LET_GO, FIXED + LIFT, "LF_Y_3"),
    Known("stands on the floor of its file", Ending.STOOD, WALKER, world=walker()),
    Known("has a block below its trunk", Ending.HUNG, WALKER, "100%", world=walker(block(0.0, 0.15, 0.335))),
    Known("has a post below its rear", Ending.HUNG, WALKER, "no feet", world=walker(block(-0.15, 0.05, 0.335))),
    Known("has the floor of its file 3 m lower", Ending.FELL, WALKER, world=walker(floor='pos="0 0 -3"')),
    Known(
        "is pushed on the ice of its file",
        Ending.SLID,
        WALKER + push(0.0, 0.1, 0.3, 0.3).replace("push", "experiment.push"),
        world=walker(floor='friction="0"', feet='friction="0.02"'),
    ),
    stopped("tells a velocity that is wrong by 0.3 m/s", 0.5, OFFSET + "base_velocity = [0.3, 0.0, 0.0]\n", "base drift"),
    stopped("tells a rate that is wrong by 0.5 rad/s", 0.5, OFFSET + "base_rate = [0.0, 0.0, 0.5]\n", "attitude drift"),
    stopped("tells joint speeds with a bias", 0.4, "robot.sensing.bias.joint_speed = 0.3\n", "joint drift"),
    stopped("has motors with a lag of 1 Hz", 0.8, "robot.drive.bandwidth = 1.0\n", "motor"),
    stopped("feeds back noisy speeds", 1.5, "robot.sensing.noise.joint_speed = 0.25\n" + EAGER, "roughness"),
    stopped("is 60 % heavier than believed", 2.3, "robot.trunk.mass_factor = 1.6\n", "differs by"),
    Known("loses its states", Ending.STOPPED, STAND + SILENT.replace("torques", "states"), "failsafe (stopped)"),
    Known("has foot switches that never close", Ending.STOOD, STAND + DEAF, "", "foot switch: LF_FOOT is open"),
)


def ended(known: Known, folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `idyn simulate` and the verdict."""
    path, figures = folder / "experiment.toml", folder / "figures.json"
    path.write_text(known.toml, encoding="utf-8")
    (folder / "walker.xml").write_text(known.world, encoding="utf-8")
    code = main(["simulate", str(path), "--json", str(figures)])
    (summary,) = json.loads(figures.read_text(encoding="utf-8"))
    return code, summary["verdict"]


def table(found: dict[str, tuple[str, int]]) -> str:
    """Return a table with a row for each ending. found: what is done to the robot → ending and exit code"""
    rows = [("verdict", "exit code", "the robot"), ("---",) * 3]
    for ending in Ending:
        runs = {what: code for what, (named, code) in found.items() if named == ending}
        for code in sorted({*runs.values()}):
            rows.append((ending, str(code), "; ".join(what for what in runs if runs[what] == code)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    found = {}
    for known in KNOWN:
        with TemporaryDirectory() as folder, redirect_stdout(stderr):
            code, verdict = ended(known, Path(folder))
        found[known.what] = (verdict["ending"], code)
    print(table(found), end="")
