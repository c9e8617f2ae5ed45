"""Runs whose ends follow from what is done to the robot, each with the verdict that it must have.

`python tests/sim_harness/known_ends.py` runs them and prints the table of docs/reference/verdicts.md.
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
    """A run with a known end.

    what: what is done to the robot; ending: its verdict; toml: the experiment
    text: words that the verdict must contain
    """

    what: str
    ending: Ending
    toml: str
    text: str = ""

    @property
    def exit_code(self) -> int:
        return 0 if self.ending in GOOD else 1


STAND = """server = "quadruped"
laws = ["coulomb"]
engine = "penalty"
paced = false
duration = 2.0
"""
SWAY = """server = "paper-stand"
engine = "lcp"
paced = false
duration = 1.5
controller.reference = { kind = "sway" }
"""
TROT = """server = "quadruped-trot"
laws = ["coulomb"]
engine = "penalty"
contacts = "binary"
paced = false
duration = 3.0
"""
OPEN = f"""[robot]
urdf = "{find("robots", "arm").parent / "arm.urdf"}"
base = "fixed"

[experiment]
laws = ["coulomb"]
engine = "lcp"
paced = false
duration = 0.6
"""
AHEAD = "controller.reference.path = { waypoints = [], velocity = [0.2, 0.0, 0.0] }\n"
ARM = """server = "arm"
laws = ["coulomb"]
engine = "lcp"
paced = false
duration = 0.6
controller.contact.mu = 1.0
"""
SILENT = "robot.link.lost_torques = { every = 1.2, length = 0.6 }\n"


LYING = """server = "quadruped-lying"
laws = ["coulomb"]
engine = "mujoco"
lying = "belly"
robot.hulls = true
paced = false
"""


def push(x: float, y: float, start: float, duration: float) -> str:
    """Return a push of x and y times the weight from `start` on [s]."""
    return f"[[push]]\nweights = [{x}, {y}, 0.0]\nstart = {start}\nduration = {duration}\n"


KNOWN = (
    Known("stands undisturbed", Ending.STOOD, STAND),
    Known("sways on its feet", Ending.STOOD, SWAY + 'laws = ["coulomb"]\n'),
    Known("is pushed by a tenth of its weight", Ending.STOOD, STAND + push(0.1, 0.0, 0.5, 0.2)),
    Known("is pushed over", Ending.FELL, STAND + push(0.0, 6.0, 0.5, 0.2), "base turns"),
    Known("has motors of a fiftieth of their torque", Ending.FELL, STAND + "robot.drive.strength = 0.02\n", "motor"),
    Known("is pushed on ice", Ending.SLID, STAND + "robot.ground.mu = 0.02\n" + push(0.1, 0.0, 0.5, 0.5)),
    Known("shall sway by a law that keeps it still", Ending.NEVER_MOVED, SWAY + 'laws = ["convex"]\n'),
    Known("walks along its path", Ending.WALKED, TROT + AHEAD, "so far"),
    Known(
        "walks to its last waypoint",
        Ending.WALKED,
        TROT + "controller.reference.path = { waypoints = [[0.2, 0.0]], repeat = false }\n",
        "walked 0.20 m",
    ),
    Known(
        "turns in place",
        Ending.WALKED,
        TROT + "controller.reference.path = { waypoints = [], velocity = [0.0, 0.0, 0.5] }\n",
        "rad so far",
    ),
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
)


def ended(known: Known, folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code of `idyn simulate` and the verdict."""
    path, figures = folder / "experiment.toml", folder / "figures.json"
    path.write_text(known.toml, encoding="utf-8")
    code = main(["simulate", str(path), "--json", str(figures)])
    (summary,) = json.loads(figures.read_text(encoding="utf-8"))
    return code, summary["verdict"]


def table() -> str:
    """Return the table of all runs."""
    rows = [("the robot", "verdict", "exit code"), ("---", "---", "---")]
    for known in KNOWN:
        with TemporaryDirectory() as folder, redirect_stdout(stderr):
            code, verdict = ended(known, Path(folder))
        rows.append((known.what, verdict["text"], str(code)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    print(table(), end="")
