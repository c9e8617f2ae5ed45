"""A Go2 in Unitree's own simulator, which reads joints, IMU and torques only: `idyn compare unitree FOLDER`.

Every run has a simulator, a server and a bridge (`idyn bridge unitree`) of its own, in real time, over DDS. The simulator's
trace is the judge; the controlled side does not read it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any, NamedTuple

import msgspec
import numpy as np
from scipy.ndimage import maximum_filter1d
from scipy.spatial.transform import Rotation

from controllers.robot.load import robot_file
from idyn.errors import ConfigError
from idyn.types import Array
from sim_harness.measure.metrics import tracking_errors
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed
from sim_harness.run.logs import Exchange, LogBlocks
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.study import Figures, Picture, Study, Sweep
from sim_harness.studies.unitree_simulator import PushOnBase, SimulatorSetup, Truth, UnitreeModel, model_path, read_truth
from transport.bridges.unitree.robot import unitree_robot
from transport.bridges.unitree.script import Step, parse_script
from transport.protocol.messages.state import TorqueMessage
from transport.server.settings import ServerSettings

TROT_S, STEADY_S, LATE_S = 0.2, 0.03, 0.06
"""A robot trots while a foot has been in the air within the first time. A change of contact counts if the foot was steady for
the second time before and after; the third is the largest delay looked for [s]."""


class Estimates(NamedTuple):
    """The server's estimates of the states that match a step of the simulator."""

    # of the trace (n); position [m] (n, 3), attitude (n), velocity in the axes of the base [m/s] (n, 3), touching (n, feet)
    rows: Array
    position: Array
    attitude: Rotation
    velocity: Array
    touching: Array


class Walk(NamedTuple):
    """What a robot did in a step of a script: displacement forward and to the left [m], turned [rad]."""

    step: Step
    forward: float
    left: float
    turned: float

    @property
    def asked(self) -> tuple[float, ...]:
        """Commanded velocity: forward, left [m/s], turn [rad/s]."""
        return self.step.velocity or (0.0, 0.0, 0.0)


class EstimateFigures(NamedTuple):
    """Errors of the estimates.

    right: share of feet right while trotting; touchdown, liftoff: median and 95 % quantile of the delay [s] (2)
    """

    velocity: Array  # rms by axis [m/s] (3)
    tilt: float  # largest [rad]
    height: float  # mean [m]
    drift: float  # of the way at the end, as a share of the way
    right: float
    touchdown: Array
    liftoff: Array


class EstimateFinder:
    """Finds the states whose joint angles are those of a step of the simulator, to the bit."""

    def __init__(self, joints: Array) -> None:
        """joints: angles in the trace, in the order of the states [rad] (steps, na)"""
        self._steps = {row.tobytes(): k for k, row in enumerate(joints.astype(np.float32))}
        self._rows: list[int] = []
        self._numbers: list[list[float]] = []  # position, quaternion, linear velocity, touching feet

    def add(self, exchanges: Sequence[Exchange]) -> None:
        """Add states and replies."""
        for state, reply, _ in exchanges:
            angles = np.frombuffer(state.q) if isinstance(state.q, bytes) else np.array(state.q)
            row = self._steps.get(angles.astype(np.float32).tobytes())
            if row is not None and isinstance(reply, TorqueMessage) and reply.estimate is not None:
                e = reply.estimate
                self._rows.append(row)
                self._numbers.append([*e.position, *e.quat, *e.vel[:3], *(float(foot.touches) for foot in e.feet)])

    def found(self) -> Estimates:
        """Return the estimates of these states."""
        position, quaternion, velocity, touching = np.split(np.array(self._numbers), [3, 7, 10], axis=1)
        return Estimates(np.array(self._rows), position, Rotation.from_quat(quaternion), velocity, touching > 0.0)


def walk_of(truth: Truth, t: Array, steps: Sequence[Step]) -> list[Walk]:
    """Return what the robot did in each step. t: time since the first step began, of each row of the trace [s]"""
    x, y = truth.q[:, 0], truth.q[:, 1]
    yaw = np.unwrap(truth.attitude.as_euler("ZYX")[:, 0])
    found, begin = [], 0.0
    for step in steps:
        inside = np.flatnonzero((t >= begin) & (t < begin + step.seconds))
        begin += step.seconds
        if len(inside):
            a, b = inside[0], inside[-1]
            way, (c, s) = (x[b] - x[a], y[b] - y[a]), (np.cos(yaw[a]), np.sin(yaw[a]))
            found.append(Walk(step, c * way[0] + s * way[1], c * way[1] - s * way[0], yaw[b] - yaw[a]))
    return found


def judge_estimates(found: Estimates, truth: Truth, model: UnitreeModel, feet: tuple[str, ...], way: float) -> EstimateFigures:
    """Return the errors of estimates.

    truth: its rows are those of the estimates; feet: empty: contacts are not judged; way: length of the way [m]
    """
    true = truth.attitude
    velocity = found.velocity - true.inv().apply(truth.v[:, :3])
    up = np.einsum("ni,ni->n", true.as_matrix()[:, 2], found.attitude.as_matrix()[:, 2])
    turn = (true[0] * found.attitude[0].inv()).as_euler("ZYX")[0]
    moved = Rotation.from_euler("Z", turn).apply(found.position - found.position[0]) - (truth.q[:, :3] - truth.q[0, :3])
    touching = model.touching(truth, feet)
    rate = 1.0 / float(np.median(np.diff(truth.t)))
    trots = maximum_filter1d((~touching).any(axis=1).astype(int), 2 * round(TROT_S * rate) + 1) > 0
    felt = found.touching[:, : len(feet)]
    right = felt == touching
    return EstimateFigures(
        velocity=np.sqrt((velocity**2).mean(axis=0)),
        tilt=float(np.arccos(np.clip(up, -1.0, 1.0)).max()),
        height=float((found.position[:, 2] - truth.q[:, 2]).mean()),
        drift=float(np.linalg.norm(moved[-1, :2])) / way if way > 0.0 else np.nan,
        right=float(right[trots].mean()) if trots.any() else np.nan,
        touchdown=_delays(truth.t, touching, felt),
        liftoff=_delays(truth.t, ~touching, ~felt),
    )


def _delays(t: Array, true: Array, found: Array) -> Array:
    """Return median and 95 % quantile of the delay of rising edges [s] (2). true, found: flags (n, feet)"""
    delays = []
    for foot in range(true.shape[1]):
        edges, late = (np.flatnonzero(np.diff(flags[:, foot].astype(int)) > 0) + 1 for flags in (true, found))
        for edge in edges:
            before = (t >= t[edge] - STEADY_S) & (t < t[edge])
            after = (t >= t[edge]) & (t < t[edge] + STEADY_S)
            near = t[late] - t[edge]
            near = near[np.abs(near) < LATE_S]
            if len(near) and not true[before, foot].any() and true[after, foot].all():
                delays.append(near[np.abs(near).argmin()])
    return np.quantile(delays, [0.5, 0.95]) if delays else np.full(2, np.nan)


LAWS, OWN_LAW = ("coulomb", "no-slip"), "own law"

REAL_TIME, SLOW = 0.98, 0.01
"""A run counts if the simulator has kept this share of real time; a lower speed is commanded to trot in place [m/s]."""


class Outcome(NamedTuple):
    """A run."""

    ended: str  # '' if the script was completed, otherwise why not
    real_time: float  # share of real time of the simulator
    rate: float = 0.0  # answered states per second [1/s]
    gap: float = np.nan  # longest time between two of them [s]
    served: float = 0.0  # share answered with `ok`
    walks: tuple[Walk, ...] = ()  # by step of the script
    tilt: float = np.nan  # largest [rad]
    torque_rate: float = np.nan  # mean |dτ/dt| [N·m/s]
    tracking: float = np.nan  # mean |error| [rad]
    estimates: EstimateFigures | None = None  # None if no state was served
    heights: Array | None = None  # time [s] and height of the base [m] (2, n), for the picture


def tasks_table(found: Figures) -> Table:
    """Return what the robot did in each run."""
    columns = {
        "ended": lambda o: o.ended or "complete",
        "× real time": lambda o: f"{o.real_time:.3f}",
        "states/s": lambda o: f"{o.rate:.0f}",
        "longest gap ms": lambda o: _n(1e3 * o.gap),
        "ok %": lambda o: f"{100 * o.served:.2f}",
        "way of the steps": lambda o: "; ".join(map(_walk, o.walks)),
        "tilt mrad": lambda o: _n(1e3 * o.tilt),
        "mean abs dτ/dt N·m/s": lambda o: _n(o.torque_rate),
        "tracking mrad": lambda o: _n(1e3 * o.tracking),
    }
    return listed("run", [(", ".join(labels), o) for labels, o in found["runs"].items()], columns)


def _walk(walk: Walk) -> str:
    """Return the way along the commanded velocity, of a step with one; otherwise the displacement."""
    forward, left, turn = walk.asked
    if abs(turn) > max(abs(forward), abs(left)):
        return f"{walk.turned:.2f} rad"
    if abs(left) > abs(forward):
        return f"{walk.left:.2f} m left"
    return f"{walk.forward:.2f} m" if abs(forward) > SLOW else f"{100 * np.hypot(walk.forward, walk.left):.1f} cm"


def estimates_table(found: Figures) -> Table:
    """Return the errors of the estimates of each run."""
    columns = {
        "v_x, v_y, v_z mm/s rms": lambda e: _list(e.velocity),
        "tilt mrad": lambda e: _n(1e3 * e.tilt),
        "height mm": lambda e: _n(1e3 * e.height),
        "drift % of way": lambda e: _n(100 * e.drift),
        "feet right % trotting": lambda e: f"{100 * e.right:.2f}",
        "touchdown ms p50, p95": lambda e: _list(e.touchdown),
        "lift-off ms p50, p95": lambda e: _list(e.liftoff),
    }
    served = [(", ".join(labels), o.estimates) for labels, o in found["runs"].items() if o.estimates is not None]
    return listed("run", served, columns)


def _list(values: Array) -> str:
    return ", ".join(_n(1e3 * value) for value in values)


def _n(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "–"


def shares(found: Figures) -> list[str]:
    """Return how many runs of each law were complete."""
    texts = []
    for law in dict.fromkeys(each for _, each in found["runs"]):
        outcomes = [o for (_, each), o in found["runs"].items() if each == law]
        kept = [o for o in outcomes if o.real_time >= REAL_TIME]
        complete = sum(not o.ended for o in kept)
        slower = f"; {len(outcomes) - len(kept)} more below {REAL_TIME:g} of real time" if len(kept) < len(outcomes) else ""
        texts.append(f"{law}: {complete} of {len(kept)} runs complete{slower}")
    return texts


def heights(found: Figures) -> bytes:
    """Draw the height of the base over time, one line for each run, and a panel for each law."""
    panels = []
    for law in dict.fromkeys(each for _, each in found["runs"]):
        lines = {run: tuple(o.heights) for (run, each), o in found["runs"].items() if each == law and o.heights is not None}
        panels.append(Plot(lines=lines, width=0.6, axes={"title": law, "ylabel": "height of the base [m]"}))
    return picture(panels)


SCRIPT = (
    "stand 60\nvelocity 0.001 0 0 30\nvelocity 0.3 0 0 17.5\nvelocity 0 0 1 13\nvelocity 0 0.2 0 6\nvelocity 0 0 0 3\nlie\n"
)
"""Stand, trot in place, forward 5 m, two turns, sideways 1 m, stand, lie down."""

SCENE_SCRIPT = "stand 10\nvelocity 0.3 0 0 20\n"
"""On other ground than the flat one: stand, then forward."""

DELAYS_SCRIPT = "stand 5\nvelocity 0.3 0 0 8\nvelocity 0 0 0 2\nlie\n"

WALKS, STANDS = "stand 5\nvelocity 0.3 0 0 11\nvelocity 0 0 0 2\nlie\n", "stand 60\n"
"""Scripts of drafted robots, on four legs or two."""

DELAYS = (0, 1, 2, 3, 4, 5)
"""Steps after which a command acts, in lock-step."""

G1_SCRIPT = """stand 34
move left_shoulder_pitch_joint=-0.6 right_shoulder_pitch_joint=0.6 3
move left_shoulder_pitch_joint=0.6 right_shoulder_pitch_joint=-0.6 3
move waist_pitch_joint=0.2 4
move waist_pitch_joint=0 16
"""
"""A humanoid: stand, of which it needs 4 s to bend its knees; swing the arms; lean forward; stand, and be pushed."""

G1_PUSH_N, G1_PUSH_S = 34.3, 0.2
"""A tenth of its weight, and for how long."""

G1_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1))
G1_PUSHES = tuple(
    PushOnBase(50.0 + 3.0 * k, G1_PUSH_S, (G1_PUSH_N * x, G1_PUSH_N * y, 0.0)) for k, (x, y) in enumerate(G1_SIDES)
)

FLAT = "flat"

DOMAIN = 41
"""DDS domain of the runs."""

SETTLE_S, SPARE_S, SLOWEST, FELL_RAD = 10.0, 14.0, 10.0, 0.5
"""Time for a server to load its fallback, time of a simulator beside the steps of a script [s]; wall time of a run in
lock-step, as a multiple of the simulated time; tilt from which a robot has fallen [rad]."""

LEADS = {
    FLAT: "In real time, on flat ground.",
    "delays": "In lock-step: each state waits for its command, which acts so many steps later.",
    "g1": f"In real time; in the last step pushes of {G1_PUSH_N:g} N for {G1_PUSH_S:g} s from four sides.",
}


class Setup(NamedTuple):
    """What the runs have in common. folder: of the simulator, with `headless.py`; scene: a file of the robot's, or `FLAT`"""

    folder: Path
    robot: str  # its folder in the simulator's
    file: str  # its robot file and controller
    script: str
    scene: str = FLAT
    delay: int | None = None  # None: in real time; otherwise in lock-step, see `SimulatorSetup`

    @property
    def steps(self) -> list[Step]:
        return parse_script(self.script, "script")


def run_once(setup: Setup, law: str) -> Outcome:
    """Run the script in the simulator once. law: of the server, or `OWN_LAW`"""
    seconds = sum(step.seconds for step in setup.steps) + SPARE_S
    with TemporaryDirectory(prefix="idyn-") as here:
        place = Path(here)
        log, trace, script, figures = (place / name for name in ("run.mcap", "trace.npz", "steps.txt", "figures.json"))
        script.write_text(setup.script, encoding="utf-8")
        bridge = [sys.executable, "-m", "sim_harness", "bridge", "unitree", "--robot", setup.file, "--domain", str(DOMAIN)]
        bridge += ["--script", str(script), "--yes", "--json", str(figures)]
        longest = (SLOWEST if setup.delay is not None else 1.0) * seconds + 60.0
        with _server(setup.file, law, place, log) as server:
            bridge += ["--connect", server.endpoint]
            sleep(SETTLE_S)
            with _simulator(setup, seconds, trace) as simulator:
                done = subprocess.run(bridge, capture_output=True, text=True, check=False, timeout=longest)
                if simulator.wait(timeout=longest):
                    raise ConfigError("unitree", f"the simulator ended with exit code {simulator.returncode}, see above")
        if not figures.exists():
            raise ConfigError("bridge", done.stderr.strip() or done.stdout.strip())
        truth = read_truth(trace)
        found = _bridged(json.loads(figures.read_text()), float(truth.t[-1]) / seconds)
        return _judged(setup, truth, log, found)


def _simulator(setup: Setup, seconds: float, trace: Path) -> "subprocess.Popen[bytes]":
    """Start the simulator: a Go2's in real time as it is, the others in a loop of our own."""
    if setup.robot == "go2" and setup.delay is None:
        command = [str(setup.folder / "headless.py"), "--robot", "go2", "--domain", str(DOMAIN)]
        command += ["--seconds", str(seconds), "--trace", str(trace), "--scene", setup.scene]
    else:
        ours = SimulatorSetup(str(setup.folder), setup.robot, DOMAIN, seconds, str(trace), delay=setup.delay)
        ours.hold, ours.pushes = "lie" not in setup.script, G1_PUSHES if setup.script == G1_SCRIPT else ()
        file = trace.with_name("simulator.json")
        file.write_bytes(msgspec.json.encode(ours))
        command = ["-m", "sim_harness.studies.unitree_simulator", str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(setup.folder), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL)


def _server(file: str, law: str, place: Path, log: Path) -> ServerProcess:
    settings, own = ServerSettings(controller=file), None if law == OWN_LAW else law
    return ServerProcess(msgspec.structs.replace(settings, law=own, endpoint=f"ipc://{place}/server"), log_path=log)


def _bridged(said: dict[str, Any], real_time: float) -> Outcome:
    """Return the figures of the bridge. said: by its `--json`"""
    modes = said["modes"]
    median, _, longest = said["period_ms"] or [np.nan] * 3
    return Outcome(
        ended=said["ended"],
        real_time=real_time,
        rate=1e3 / median,
        gap=1e-3 * longest,
        served=modes.get("ok", 0) / max(sum(modes.values()), 1),
    )


def _judged(setup: Setup, truth: Truth, log: Path, found: Outcome) -> Outcome:
    """Return the figures of a run with a server. found: the bridge's"""
    model, errors = UnitreeModel(model_path(setup.folder, setup.robot)), []
    with LogBlocks(log) as recorded:
        robot = recorded.controller.robot
        matched = EstimateFinder(model.joints(truth.q, robot.joint_names))
        for block in recorded.blocks():
            matched.add(block.exchanges)
            errors.append(np.abs(tracking_errors(block.trace, robot)))
    if not errors:
        return found
    estimates = matched.found()
    served = truth.taken(np.arange(estimates.rows[0], estimates.rows[-1] + 1))
    walks = tuple(walk_of(served, served.t - served.t[0], [step for step in setup.steps if step.seconds]))
    moving = [walk for walk in walks if np.hypot(walk.asked[0], walk.asked[1]) > SLOW]
    way = sum(float(np.hypot(walk.forward, walk.left)) for walk in moving)
    feet = tuple(key.removesuffix("_foot") for key in robot.spheres.keys) if setup.robot == "go2" else ()
    tilt, dt = float(served.tilt.max()), float(np.median(np.diff(served.t)))
    return found._replace(
        ended="fell" if tilt > FELL_RAD else found.ended,
        walks=walks,
        tilt=tilt,
        torque_rate=float(np.abs(np.diff(served.torques, axis=0)).mean() / dt),
        tracking=float(np.nanmean(np.concatenate(errors))),
        estimates=judge_estimates(estimates, truth.taken(estimates.rows), model, feet, way),
        heights=np.array([served.t - served.t[0], served.q[:, 2]]),
    )


def study(*words: str, seeds: int | None) -> Study:
    """Return the study.

    words: folder of the simulator, with `headless.py`; then `FLAT` (default) or a scene of the Go2's; or 'g1': a humanoid that
        stands; or 'delays': one run with each of `DELAYS`, in lock-step; or a draft of a robot of the simulator
    seeds: runs of each law, in turns; None: 1

    Raises ConfigError for a folder or a scene that is not there.
    """
    if len(words) not in (1, 2):
        raise ConfigError("unitree", "expected the folder of Unitree's simulator, and perhaps a scene, delays, g1 or a draft")
    folder, what = Path(words[0]).resolve(), words[1] if len(words) == 2 else FLAT
    if not (folder / "headless.py").exists():
        raise ConfigError("unitree", f"expected a folder with headless.py, which starts Unitree's simulator, got {folder}")
    scenes = sorted(path.name for path in (folder / "sim/unitree_robots/go2").glob("scene*.xml"))
    go2 = Setup(folder, "go2", "go2-unitree", SCRIPT)
    variants = {scene: go2._replace(script=SCENE_SCRIPT, scene=scene) for scene in scenes} | {
        FLAT: go2,
        "delays": go2._replace(script=DELAYS_SCRIPT),
        "g1": Setup(folder, "g1", "g1-unitree", G1_SCRIPT),
    }
    if what.endswith(".toml"):
        script = WALKS if "lie" in unitree_robot(what).postures else STANDS
        variants[what] = Setup(folder, robot_file(what).parent.name, str(Path(what).absolute()), script)
    if what not in variants:
        raise ConfigError("unitree", f"expected one of {', '.join(variants)}, got '{what}'")
    setup = variants[what]
    runs: dict[str, int | None] = {str(k + 1): None for k in range(seeds or 1)}
    if what == "delays":
        runs = {f"{delay} steps": delay for delay in DELAYS}
    laws = LAWS if setup.robot == "go2" else (OWN_LAW,)
    return Study(
        f"A {setup.robot.title()} in Unitree's simulator",
        f"Joints, IMU and torques only, over DDS. {LEADS.get(what, f'In real time; ground: {what}.')} Script: "
        + ", ".join(setup.script.split("\n")),
        sweeps={"runs": Sweep((runs, laws), lambda delay, law: run_once(setup._replace(delay=delay), law))},
        tables=(tasks_table, estimates_table),
        notes=shares,
        pictures=(Picture("heights", "Height of the base, by the simulator's trace.", heights),),
    )
