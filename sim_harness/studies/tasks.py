"""Task controllers on the same robot, references, gains, limits and world: `idyn compare tasks`.

`idyn.tasks` runs in this process, TSID and placo in processes with an interpreter of their own: their versions of Pinocchio
differ, and must not be loaded together.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple, Protocol
from xml.etree import ElementTree

import numpy as np

from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.model.so3 import tilt
from idyn.tasks import ForceTask, FrameTask, PostureTask, TaskStack, predict_tasks
from idyn.types import Array, ContactSet, Guess, Record, State
from sim_harness.compare.studies import PEERS
from sim_harness.measure.fall import Posture
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table
from sim_harness.studies.study import Figures, Picture, Study, Sweep
from sim_harness.world.worlds import build_world


class Curve(NamedTuple):
    """A function of n times, with its first and second derivative: each (n), or (n, 3) for a point in the world [m]."""

    x: Array
    v: Array
    a: Array

    def __add__(self, other: "Curve | Array") -> "Curve":  # type: ignore[override]
        """Return the sum of two curves, or the curve moved by a constant offset (3)."""
        if isinstance(other, Curve):
            return Curve(self.x + other.x, self.v + other.v, self.a + other.a)
        return Curve(self.x + other, self.v, self.a)

    def along(self, direction: Array) -> "Curve":
        """Return the curve of a point that moves along a direction (3) by the values of this function."""
        return Curve(*(np.multiply.outer(each, direction) for each in self))


def ramp(t: Array) -> Curve:
    """Return a polynomial of fifth degree, 0 for t ≤ 0 and 1 for t ≥ 1 s, with zero slope and curvature at both ends."""
    s = np.clip(t, 0.0, 1.0)
    return Curve(s**3 * (10.0 - 15.0 * s + 6.0 * s**2), 30.0 * s**2 * (1.0 - s) ** 2, 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s))


def circle(t: Array, radius: float, frequency: float, axes: tuple[int, int]) -> Curve:
    """Return a circle in the plane of two world axes, whose radius grows from 0 between t = 0 and 1 s."""
    w = 2.0 * np.pi * frequency
    r, turn = ramp(t), np.exp(1j * w * t)
    # z = r e^{iωt}, ż = (ṙ + iω r) e^{iωt}, z̈ = (r̈ + 2iω ṙ − ω² r) e^{iωt}
    parts = (r.x * turn, (r.v + 1j * w * r.x) * turn, (r.a + 2j * w * r.v - w**2 * r.x) * turn)
    first, second = np.eye(3)[list(axes)]
    return Curve(*(radius * (np.outer(z.real, first) + np.outer(z.imag, second)) for z in parts))


ROBOT, SWINGING, PRESSING = "go2", "FL_foot", "FL_foot"
"""Robot; the foot that leaves the ground in runs with a free foot; the foot whose force is asked for."""

DT, BEGIN, SETTLED, SECONDS = 0.001, 1.0, 3.0, 6.0
"""Period; begin of the motion, the first second is for settling; figures are taken from `SETTLED` on; end [s]."""

LEAN = np.array([-0.03, -0.03, 0.0])
LIFT = np.array([0.0, 0.0, 0.06])
"""Shift of the trunk before a foot is lifted; height of the lifted foot [m]."""


class TaskRun(Record, frozen=True):
    """A run of all controllers.

    radius [m], frequency [Hz]: of the circle, drawn by the trunk, or by the free foot if there is one
    """

    radius: float = 0.03
    frequency: float = 0.5
    noise: float = 0.0  # of the measured state, in units of `measured`
    mu: float | None = None  # friction coefficient of world and models; None: the robot's
    lifts: bool = False  # whether a foot leaves the ground
    presses: float | None = None  # normal force that is asked of the foot `PRESSING` [N]; None: no force is asked for


RUNS = {
    "trunk on a circle": TaskRun(),
    "with sensor noise": TaskRun(noise=1.0),
    "a free foot on a circle": TaskRun(lifts=True),
    "friction too low": TaskRun(radius=0.05, frequency=1.0, mu=0.15),
    "a foot presses 45 N": TaskRun(radius=0.0, presses=45.0),
}


class Targets(NamedTuple):
    """What is asked for in each of n ticks."""

    # trunk, foot: curves of the base and of the free foot in the world, x, v and a side by side (n, 9); the attitude of the
    # base is asked to be level, the joints to be near the stance
    trunk: Array
    foot: Array
    stands: Array  # which contacts touch the ground, in the order of the robot's contact places (n, contacts)
    presses: Array  # normal force of the foot `PRESSING` [N]; NaN: not asked for (n)


def stance() -> tuple[Robot, Array]:
    """Return the robot and its stance."""
    return load_robot(ROBOT)


def targets_of(run: TaskRun, robot: Robot, q: Array, seconds: float = SECONDS) -> Targets:
    """Return the targets of a run from the stance q."""
    t = DT * np.arange(round(seconds / DT))
    still, drawn = Curve(*np.zeros((3, len(t), 3))), circle(t - BEGIN, run.radius, run.frequency, (0, 2 if run.lifts else 1))
    trunk = ramp(t).along(LEAN) if run.lifts else drawn
    foot = drawn + ramp(t - BEGIN).along(LIFT) if run.lifts else still
    stands = np.ones((len(t), len(robot.spheres.keys)), dtype=bool)
    if run.lifts:
        stands[t >= BEGIN, robot.spheres.keys.index(SWINGING)] = False
    return Targets(
        trunk=np.hstack(trunk + q[:3]),
        foot=np.hstack(foot + robot.frames.placement(SWINGING, q).translation),
        stands=stands,
        presses=np.full(len(t), np.nan if run.presses is None else run.presses),
    )


def measured(robot: Robot, q: Array, v: Array, noise: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a state as sensors see it. Standard deviations for noise 1: base 0.2 mm, 1 mrad, 10 mm/s, 10 mrad/s; joints
    0.5 mrad, 50 mrad/s."""
    if noise == 0.0:
        return q, v
    shift, speed = np.full(robot.nv, 5e-4), np.full(robot.nv, 5e-2)
    shift[:3], shift[3:6], speed[:6] = 2e-4, 1e-3, 1e-2
    draws = noise * rng.normal(size=(2, robot.nv))
    return robot.integrate(q, shift * draws[0]), v + speed * draws[1]


STIFFNESS, DAMPING = 100.0, 20.0
"""Gains of all tasks [1/s²], [1/s]."""

FRICTION_MARGIN, LEAST_FORCE = 0.05, 1.0
"""Share of the friction that is not used; least normal force of a foot that stands [N]."""

LEVEL = np.eye(3)
STILL = np.zeros(3)


class TaskTick(NamedTuple):
    """What a controller returns."""

    tau: Array  # joint torques [N·m] (na)
    normal: Array  # normal force of each contact place that the controller computes [N] (contacts)
    seconds: float  # run time of the computation, from the state and the targets to the torques [s]
    ok: bool  # whether the controller found a solution


class TaskController(Protocol):
    """A controller of one run."""

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        """Return the torques for tick k in the measured state (q, v)."""
        ...

    def close(self) -> None:
        """Release what the controller holds."""
        ...


class OwnController:
    """`idyn.tasks.predict_tasks` with its default settings."""

    def __init__(self, robot: Robot, stance: Array, run: TaskRun, targets: Targets) -> None:
        self._robot, self._targets = robot, targets
        self._guess: Guess | None = None
        self._mu = None if run.mu is None else np.full(len(robot.spheres.keys), run.mu)
        self._posture = PostureTask(angles=robot.joint_angles(stance), level=1, stiffness=STIFFNESS, damping=DAMPING)

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        robot, targets = self._robot, self._targets
        begin = perf_counter()
        contacts = contacts_from_geometry(robot, q, Flat(), margin=0.002, mu=self._mu)
        stands = targets.stands[k]
        if not stands.all():
            contacts = contacts.take(np.array([stands[robot.spheres.keys.index(key)] for key in contacts.keys]))
        answer = predict_tasks(
            robot, State(q=q, v=v), contacts, TaskStack(tasks=self._tasks(k)), law="coulomb", dt=DT, guess=self._guess
        )
        prediction = answer.prediction
        self._guess = prediction.guess
        seconds = perf_counter() - begin
        normal = np.zeros(len(stands))
        normal[[robot.spheres.keys.index(key) for key in contacts.keys]] = prediction.normal_force
        return TaskTick(prediction.tau, normal, seconds, prediction.status.ok)

    def _tasks(self, k: int) -> Sequence[FrameTask | ForceTask | PostureTask]:
        targets = self._targets
        tasks: list[FrameTask | ForceTask | PostureTask] = [_follow("root_joint", targets.trunk[k], LEVEL), self._posture]
        if not targets.stands[k].all():
            tasks.append(_follow(SWINGING, targets.foot[k], None))
        if not np.isnan(targets.presses[k]):
            tasks.append(ForceTask(contacts=PRESSING, normal=float(targets.presses[k])))
        return tasks

    def close(self) -> None:
        pass


def _follow(frame: str, target: Array, rotation: Array | None) -> FrameTask:
    """Return the task of a frame that follows a row of a curve (9)."""
    return FrameTask(
        frame=frame,
        position=target[:3],
        rotation=rotation,
        velocity=np.concatenate([target[3:6], STILL]),
        acceleration=np.concatenate([target[6:], STILL]),
        stiffness=STIFFNESS,
        damping=DAMPING,
    )


class TaskFigures(NamedTuple):
    """Figures of a run, from `SETTLED` until the end or the fall."""

    tracking: float  # root mean square of the position error of the trunk, or of the free foot [mm]
    tilt: float  # root mean square of the angle between the vertical axes of trunk and world [mrad]
    force: float  # root mean square over feet and ticks of the normal force in the world minus that of the controller [N]
    pressing: float  # largest difference of the normal force in the world from the one that is asked for [N]; NaN if none is
    rate: float  # mean of |dτ/dt| over joints and ticks [N·m/s]
    fell: float  # time of the fall [s]; inf: upright to the end
    seconds: float  # median run time of the controller [s]
    failed: int  # number of ticks without a solution
    errors: Array  # the position errors, one per tick [mm] (n)


def run_controller(robot: Robot, stance: Array, run: TaskRun, targets: Targets, controller: TaskController) -> TaskFigures:
    """Run a controller. The same noise is drawn for every controller."""
    keys = robot.spheres.keys
    mu = None if run.mu is None else np.full(len(keys), run.mu)
    world, posture = build_world(MujocoSettings(), robot, Flat(), stance, mu=mu), Posture(robot, Flat(), stance)
    rng, samples, fell = np.random.default_rng(0), [], np.inf
    for k in range(len(targets.trunk)):
        q, v = world.q, world.v
        if not posture.upright(q[None]):
            fell = k * DT
            break
        tick = controller.tick(k, *measured(robot, q, v, run.noise, rng))
        step = world.step(tick.tau, DT)
        normal = np.zeros(len(keys))
        normal[[keys.index(key) for key in step.contacts.keys]] = step.normal_force
        x = robot.frames.placement(SWINGING, q).translation if run.lifts else q[:3]
        error = float(np.linalg.norm(x - (targets.foot if run.lifts else targets.trunk)[k, :3]))
        pressing = float(abs(normal[keys.index(PRESSING)] - targets.presses[k]))
        samples.append((error, float(tilt(q[3:7])), normal - tick.normal, pressing, tick.tau, tick.seconds, tick.ok))
    first = min(round(SETTLED / DT), len(samples) // 2)  # of a robot that falls early, the second half of what there is
    errors, tilts, force, presses, tau, seconds, ok = (np.array(column) for column in zip(*samples[first:], strict=True))
    return TaskFigures(
        tracking=1e3 * _rms(errors),
        tilt=1e3 * _rms(tilts),
        force=_rms(force),
        pressing=float(presses.max()),
        rate=float(np.abs(np.diff(tau, axis=0)).mean() / DT),
        fell=float(fell),
        seconds=float(np.median(seconds)),
        failed=int(np.sum(~ok)),
        errors=1e3 * errors,
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


SCRIPT = Path(__file__).parent / "peers" / "serve.py"
"""Script of the other process; beside it, `NAME_controller.py` has the controller of each of `PEERS`."""


class Peer:
    """The controller of another project. It gets states and targets over pipes."""

    def __init__(
        self, name: str, python: Path, robot: Robot, stance: Array, frames: Sequence[str] = (), **fields: object
    ) -> None:
        """Start the process. python: interpreter with the project installed; frames: links whose position may be asked for
        fields: of `peers.serve.Setup`, that differ from the default

        Raises ConfigError if the process fails.
        """
        self._sizes = robot.na, len(robot.spheres.keys)
        self._name = name
        setup = _setup(robot, stance, frames) | fields
        with TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            contacts = contacts_from_geometry(robot, stance, Flat(), margin=np.inf)
            base, text = with_contact_links(robot, stance, contacts)
            path.write_text(text, encoding="utf-8")
            try:
                self._process = subprocess.Popen(
                    [python, SCRIPT, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except OSError as error:
                raise ConfigError(f"--{name}", f"expected a Python interpreter, got {python}: {error.strerror}") from error
            self._send((json.dumps(setup | {"urdf": str(path), "base": base}) + "\n").encode())
            self._received(len(b"ready\n"))

    def tick(self, q: Array, v: Array, trunk: Array, frames: Array, stands: Array, presses: float = np.nan) -> TaskTick:
        """Return the answer to a state. Its run time is the controller's own, without the exchange.

        trunk (9), frames (k, 9): position, velocity and acceleration; NaN: not asked for
        stands: which contacts touch the ground (contacts); presses: normal force that is asked for [N], NaN: none
        """
        return self._answer(q, v, trunk, frames.ravel(), stands, [presses], np.full(self._sizes[0], np.nan))

    def accelerate(self, q: Array, v: Array, demand: Array, stands: Array) -> TaskTick:
        """Return the answer to a state for demanded joint accelerations [rad/s²] (na), of a peer with `accelerates`."""
        return self._answer(q, v, np.full(9, np.nan), stands, [np.nan], demand)

    def _answer(self, *values: Array | list[float]) -> TaskTick:
        na, contacts = self._sizes
        self._send(np.concatenate(values, dtype=np.float64).tobytes())
        seconds, ok, *answer = np.frombuffer(self._received(8 * (2 + na + contacts)))
        return TaskTick(np.array(answer[:na]), np.array(answer[na:]), float(seconds), bool(ok))

    def _send(self, data: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(data)
            pipe.flush()
        except BrokenPipeError:
            self._fail()

    def _received(self, size: int) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        data = pipe.read(size)
        if len(data) < size:
            self._fail()
        return data

    def _fail(self) -> None:
        """Raise ConfigError with the last line that the process printed."""
        _, printed = self._process.communicate()
        lines = printed.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ConfigError(f"--{self._name}", f"expected an environment with {self._name} installed; it failed: {lines[-1]}")

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class PeerController:
    """The controller of another project in a run of the comparison."""

    def __init__(self, name: str, python: Path, robot: Robot, stance: Array, run: TaskRun, targets: Targets) -> None:
        """See `Peer`."""
        self._targets = targets
        fields: dict[str, object] = {"pressing": robot.spheres.keys.index(PRESSING)} | (
            {} if run.mu is None else {"mu": run.mu}
        )
        self._peer = Peer(name, python, robot, stance, (SWINGING,), **fields)

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        t = self._targets
        foot = t.foot[k] if not t.stands[k].all() else np.full(9, np.nan)
        return self._peer.tick(q, v, t.trunk[k], foot[None], t.stands[k], float(t.presses[k]))

    def close(self) -> None:
        """End the process."""
        self._peer.close()


class PeerTicks:
    """A peer on the states and targets of ticks: base, frames that no contact holds, posture of the stance."""

    def __init__(
        self, name: str, python: Path, robot: Robot, stance: Array, ticks: Sequence[tuple[State, ContactSet, TaskStack]]
    ) -> None:
        """Start its process, see `Peer`."""
        tasks = [[task for task in stack.tasks if isinstance(task, FrameTask)] for _, _, stack in ticks]
        frames = sorted({str(task.frame) for each in tasks for task in each[1:]})
        self._peer = Peer(name, python, robot, stance, frames, mu=float(ticks[0][1].mu[0]))
        self._arguments = [
            _targets_of(robot, state, contacts, each, frames) for (state, contacts, _), each in zip(ticks, tasks, strict=True)
        ]

    def times(self) -> Array:
        """Return the run time of each tick, whose references are set before [s] (ticks); NaN without a solution."""
        answers = [self._peer.tick(*each) for each in self._arguments]
        return np.array([answer.seconds if answer.ok else np.nan for answer in answers])

    def close(self) -> None:
        """End the process."""
        self._peer.close()


def _targets_of(
    robot: Robot, state: State, contacts: ContactSet, tasks: list[FrameTask], frames: Sequence[str]
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the arguments of `Peer.tick`. tasks: those of frames, first that of the base"""
    stands = np.array([key in contacts.keys for key in robot.spheres.keys])
    held = {place.frame for place, there in zip(robot.description.contact, stands, strict=True) if there}
    rows = np.full((len(frames), 9), np.nan)
    for task in tasks[1:]:
        if task.frame not in held:
            rows[frames.index(str(task.frame))] = _row(task)
    return state.q, state.v, _row(tasks[0]), rows, stands


def _row(task: FrameTask) -> Array:
    """Return position, velocity and acceleration of the target of a frame in the world (9)."""
    parts = (task.position, task.velocity, task.acceleration)
    return np.concatenate([np.zeros(3) if part is None else np.asarray(part, np.float64).ravel()[:3] for part in parts])


def with_contact_links(robot: Robot, stance: Array, contacts: ContactSet) -> tuple[str, str]:
    """Return the name of the root link, and the URDF of a robot without meshes, with a massless link `contact KEY` for each
    contact place, fixed to its link at the contact point in the stance."""
    model = ElementTree.fromstring(robot.description.urdf)
    for link in model.findall("link"):
        for tag in ("visual", "collision"):
            for each in link.findall(tag):
                link.remove(each)
    children = {joint.find("child").get("link") for joint in model.findall("joint")}  # type: ignore[union-attr]
    (root,) = (name for link in model.findall("link") if (name := str(link.get("name"))) not in children)
    links = {key: place.frame for key, place in zip(robot.spheres.keys, robot.description.contact, strict=True)}
    for key, point in zip(contacts.keys, contacts.points, strict=True):
        frame = robot.frames.placement(links[key], stance)
        offset = frame.rotation.T @ (point - frame.translation)
        ElementTree.SubElement(model, "link", name=contact_link(key))
        joint = ElementTree.SubElement(model, "joint", name=f"joint of {contact_link(key)}", type="fixed")
        ElementTree.SubElement(joint, "origin", xyz=" ".join(map(repr, offset.tolist())), rpy=_angles(frame.rotation.T))
        ElementTree.SubElement(joint, "parent", link=links[key])
        ElementTree.SubElement(joint, "child", link=contact_link(key))
    return root, ElementTree.tostring(model, encoding="unicode")


def contact_link(key: str) -> str:
    return f"contact {key}"


def _angles(R: Array) -> str:
    """Return roll, pitch and yaw of a rotation matrix as in a URDF."""
    angles = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(-R[2, 0], np.hypot(R[2, 1], R[2, 2])), np.arctan2(R[1, 0], R[0, 0])
    return " ".join(repr(float(angle)) for angle in angles)


def _setup(robot: Robot, stance: Array, frames: Sequence[str]) -> dict[str, object]:
    """Return the fields of `peers.serve.Setup` but the robot's file."""
    links = [place.frame for place in robot.description.contact]
    corners = [[i for i, link in enumerate(links) if link == name] for name in dict.fromkeys(links)]
    return {
        "soles": [each for each in corners if len(each) > 2],
        "contacts": [contact_link(key) for key in robot.spheres.keys],
        "frames": list(frames),
        "joints": robot.joint_names,
        "armature": robot.bodies.armature[robot.tree.a].tolist(),
        "effort": robot.limits.tau_max.tolist(),
        "angles": robot.joint_angles(stance).tolist(),
        "mu": float(robot.spheres.mu[0]),
        "margin": FRICTION_MARGIN,
        "normal": [0.0, 0.0, 1.0],
        "pressing": 0,
        "accelerates": False,
        "least": LEAST_FORCE,
        "stiffness": STIFFNESS,
        "damping": DAMPING,
        "dt": DT,
        "q": stance.tolist(),
    }


OWN = "idyn"

HEAD = (
    "run",
    "controller",
    "tracking, rms [mm]",
    "tilt, rms [mrad]",
    "forces, rms [N]",
    "asked force [N]",
    "mean |dτ/dt| [N·m/s]",
    "upright",
    "run time [µs]",
)


def figures_of(at: tuple[Robot, Array], run: TaskRun, python: Path | None, name: str) -> TaskFigures | None:
    """Return the figures of a controller; None for a run that it has no task for.

    python: interpreter of another project's environment; None for `idyn.tasks`
    """
    robot, q = at
    targets = targets_of(run, robot, q, SECONDS)
    if python is None:
        return run_controller(robot, q, run, targets, OwnController(robot, q, run, targets))
    if run.presses is not None and name == "placo":
        return None
    controller = PeerController(name, python, robot, q, run, targets)
    try:
        return run_controller(robot, q, run, targets, controller)
    finally:
        controller.close()


def task_table(found: Figures) -> Table:
    """Return the table of all runs and controllers."""
    body = []
    for (run, name), f in found["tasks"].items():
        if f is None:
            body.append([run, name, "no task for contact forces", *["–"] * (len(HEAD) - 3)])
            continue
        figures = [_short(x) for x in (f.tracking, f.tilt, f.force, f.pressing, f.rate)]
        upright = "yes" if f.fell == np.inf else f"fell at {f.fell:.1f} s"
        body.append([run, name, *figures, upright, f"{1e6 * f.seconds:.0f}"])
    return [[*HEAD], *body]


def _short(value: float) -> str:
    """Return a number with two digits, or with all digits before the point; a dash for NaN."""
    if np.isnan(value):
        return "–"
    return f"{value:.2g}" if value < 100.0 else f"{value:.0f}"


def error_picture(found: Figures) -> bytes:
    """Draw the position errors over time, one panel for each run."""
    panels = []
    for run in dict.fromkeys(run for run, _ in found["tasks"]):
        lines: dict[str, Line] = {
            name: (SETTLED + DT * np.arange(len(f.errors)), f.errors)
            for (other, name), f in found["tasks"].items()
            if other == run and f is not None and f.fell == np.inf
        }
        axes = {"title": run, "xlabel": "time [s]", "ylabel": "position error [mm]"}
        panels.append(Plot(lines=lines, legend=True, axes=axes, log="y", width=0.8))
    return picture(panels, size=(7.0, 2.4 * len(panels)))


def study(tsid: Path | None, placo: Path | None) -> Study:
    """Return the study. tsid, placo: interpreters of environments with these projects; None: without them"""
    peers, at = {name: path for name, path in zip(PEERS, (tsid, placo), strict=True) if path is not None}, stance()
    controllers = {OWN: (None, OWN), **{name: (peers[name], name) for name in PEERS if name in peers}}
    missing = [name for name in PEERS if name not in peers]
    notes = [
        "Forces: normal forces of the feet in the world minus those that the controller computes. Asked force: largest error "
        "of the force that is asked of a foot. Run time: median, from state and targets to torques, with calls from "
        "Python. Figures of a robot that falls are those of the second half of its time, or from 3 s on."
    ]
    if missing:
        notes.append(f"Left out: {', '.join(missing)} ({' and '.join(f'--{name} PYTHON' for name in missing)} not given).")
    return Study(
        "Tasks",
        "go2 in MuJoCo with its default ground, 1 kHz; the same references, gains (100, 20), friction margin (5 %) and limits.",
        sweeps={"tasks": Sweep((RUNS, controllers), lambda run, which: figures_of(at, run, *which))},
        tables=(task_table,),
        pictures=(Picture("tasks", "Position error of the trunk, or of the free foot.", error_picture),),
        notes=lambda _: notes,
    )
