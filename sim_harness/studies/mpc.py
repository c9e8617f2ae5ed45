"""Gaits planned by model-predictive control beside the loop, and the plan inside it: `idyn compare mpc`."""

from collections.abc import Callable
from time import thread_time
from typing import NamedTuple

import msgspec
import numpy as np

from controllers.build import build_controller
from controllers.config.loading import load
from controllers.controller import Controller
from controllers.planners.gait import GaitSettings
from controllers.planners.mpc import HORIZON, Asked, MpcPlanner, MpcSettings
from controllers.settings import ControllerSettings
from idyn.errors import IdynError
from idyn.types import Array, State
from sim_harness.measure.fall import Posture
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.report.plots import Line, Plot, picture
from sim_harness.report.tables import Table
from sim_harness.robot.lying import PerturbationSettings
from sim_harness.run.experiment import run_in_process, task_of
from sim_harness.run.plan import Plan, build_plan, hello_of, load_plan, simulated_robot, with_controller
from sim_harness.studies.study import Figures, Picture, Study, Sweep, grouped
from transport.log.recorder import Recorder
from transport.protocol.codec import decode, encode, vector
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.protocol.task_input import write_tasks
from transport.server.service import Service
from transport.startup.loopback import Loopback

LATENCY, NAME = 3, "plan"
"""Time from a state to the command that follows from it [ticks]; name of the planner."""


class Planned:
    """A client of a service in this process. Before a state it sends the command that is due. Implements `Exchanger`.

    steer: called with the time [s] before each plan; times: processor time of the plans [s]
    refusals: of commands, and plans without a result
    """

    deadline = np.inf

    def __init__(
        self,
        plan: Plan,
        controller: Controller,
        planner: MpcPlanner,
        rate: float,
        *,
        dies: float = np.inf,
        steer: Callable[[float], None] = lambda t: None,
        recorder: Recorder | None = None,
    ) -> None:
        """rate: of the plans [Hz]; dies: when the planner dies [s]; recorder: of all messages"""
        self._now, self._dt, self._dies, self._steer = 0, plan.controller.period, dies, steer
        settings = msgspec.structs.replace(plan.server, planners=(NAME,))
        self._service = Service(controller, settings, clock=lambda: self._now, recorder=recorder)
        self._client = Loopback(self._service, hello_of(plan, controller.robot), clock=lambda: self._now)
        self._client.hello()
        welcome = self._asked(PlanHello(name=NAME))
        assert isinstance(welcome, PlanWelcome), welcome
        self._planner, self._session, self._every = planner, welcome.session, round(1.0 / (rate * self._dt))
        self._tick = 0
        self._due: tuple[int, Asked] | None = None
        self._sizes = controller.robot.nq, controller.robot.nv
        self.error: ErrorMessage | None = None
        self.times: list[float] = []
        self.refusals: list[str] = []

    @property
    def session(self) -> int:
        """Return the session number of the robot."""
        return self._client.session

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        """Plan, command and send a state, each when it is due."""
        self._now, t = state.t_robot, self._tick * self._dt
        if self._tick % self._every == 0 and t < self._dies:
            self._steer(t)
            begin = thread_time()
            q, v = vector(state.q, self._sizes[0], "q"), vector(state.vel, self._sizes[1], "vel")
            asked = self._planner.plan(t, State(q=q, v=v))
            self.times.append(thread_time() - begin)
            self._due = self._tick + LATENCY, asked
        if self._due is not None and self._tick >= self._due[0]:
            self._command(self._due[1])
            self._due = None
        self._tick += 1
        answer = self._client.exchange(state)
        self.error = self._client.error
        return answer

    def ask(self, message: FromClient) -> FromServer:
        """Send any other message of the robot."""
        return self._client.ask(message)

    def _command(self, asked: Asked) -> None:
        if asked.problem:
            self.refusals.append(asked.problem)
            return
        tasks, valid_for = write_tasks(asked.tasks), HORIZON * self._every * self._dt
        reply = self._asked(CommandMessage(session=self._session, valid_for=valid_for, tasks=tasks, modes=asked.modes))
        if not isinstance(reply, CommandAck):
            self.refusals.append(str(reply))

    def _asked(self, message: FromClient) -> FromServer:
        reply = decode(self._service.handle(NAME.encode(), encode(message), self._now).reply)
        self._service.settle()
        return reply  # type: ignore[return-value]


SECONDS, SEEDS = 8.0, 2
"""Simulated time of a run [s]; runs of each robot."""

SPEEDS = {"trot": 0.4, "pace": 0.4, "bound": 0.4, "walk": 0.2}
"""Pattern → commanded velocity forward [m/s]."""

ROBOTS = {"go2": 0.05, "a1": 0.05, "solo12": 0.03}
"""Robot → step height [m]."""

FRICTION = 0.8
"""Of the ground; given, so that the world is that of the controller's model."""

PLANNERS = {"in the loop": False, "beside it, MPC": True}
"""Planner → whether it is beside the loop."""

DEATHS, DIES, AFTER = 12, 2.0, 2.0
"""Number of times in one period of a trot at which the planner dies, the first of them, and the time after it [s]."""

HEAD = (
    *("pattern", "robot", "planner", "upright", "forward [m/s]", "left [m/s]", "turn [rad/s]", "tilt [mrad]"),
    *("mean |dτ/dt| [N·m/s]", "ok [%]", "plan, median [ms]", "99 % [ms]"),
)


class Outcome(NamedTuple):
    """Figures of a run. plans: processor time of each plan beside the loop [s] (n)"""

    summary: Summary
    plans: Array


def gait_of(robot: str, pattern: str) -> GaitSettings:
    """Return the gait, the same for both planners."""
    period, duty = (0.6, 0.75) if pattern == "walk" else (0.35, 0.6)
    return msgspec.convert({"pattern": pattern, "period": period, "duty": duty, "step_height": ROBOTS[robot]}, GaitSettings)


def plan_of(robot: str, pattern: str, beside: bool, seconds: float = SECONDS) -> Plan:
    """Return the plan of a run in MuJoCo with foot switches, in the world of the controller's model: planners are compared, not
    feet. beside: whether the planner is beside the loop"""
    settings = load_plan(f"trot-{robot}", seconds, engine="mujoco").settings
    noise = PerturbationSettings(shift=0.001, speed=0.01)
    settings = msgspec.structs.replace(settings, contacts="binary", perturbation=noise, laws=("coulomb",), mu=FRICTION)
    if beside:
        return msgspec.structs.replace(build_plan(settings), controller=load("controllers", robot, ControllerSettings))
    path = {"waypoints": [], "velocity": [SPEEDS[pattern], 0.0, 0.0]}
    return with_controller(
        build_plan(settings), {"reference": {"gait": msgspec.to_builtins(gait_of(robot, pattern)), "path": path}}
    )


def outcome_of(robot: str, pattern: str, beside: bool, seed: int, dies: float = np.inf, seconds: float = SECONDS) -> Outcome:
    """Return the figures of a run. dies: when the planner beside the loop dies [s]

    Raises IdynError if the server refuses a command, or there is no plan.
    """
    plan = plan_of(robot, pattern, beside, seconds)
    if not beside:
        return Outcome(run_in_process(plan, pattern, lambda *_: None, seed=seed).summary, np.zeros(0))
    controller, settings = build_controller(plan.controller), MpcSettings(gait=gait_of(robot, pattern))
    planner = MpcPlanner(controller.robot, controller.stance, settings)
    planner.path.steer(np.array([SPEEDS[pattern], 0.0, 0.0]))
    client = Planned(plan, controller, planner, settings.rate, dies=dies)
    side = simulated_robot(plan, client, seed=seed)
    trace = side.run(seconds, (), Posture(side.world.robot, side.world.terrain, side.world.q))
    if client.refusals:
        raise IdynError(client.refusals[0])
    task, dt = task_of(plan.controller, controller.stance), plan.controller.period
    summary = summarise(trace, controller.robot, task, label=pattern, engine="mujoco", ticks=plan.ticks, dt=dt)
    return Outcome(summary, np.array(client.times))


def gaits_table(found: Figures) -> Table:
    """Return the figures of each gait, means over the seeds; those of a robot that falls until it falls."""
    body = []
    for key, outcomes in grouped(found["gaits"], 0, 1, 2).items():
        up = sum(each.summary.upright for each in outcomes)
        s = [each.summary for each in outcomes]
        rows = [[o.forward, o.left, o.turn, 1e3 * o.tilt, o.torque_rate, 100.0 * o.modes.get("ok", 0.0)] for o in s]
        times = np.concatenate([each.plans for each in outcomes])
        own = ["", ""] if not len(times) else [f"{1e3 * np.median(times):.2f}", f"{1e3 * np.percentile(times, 99):.2f}"]
        body.append([*key, f"{up} of {len(s)}", *(f"{value:.3g}" for value in np.mean(rows, axis=0)), *own])
    return [[*HEAD], *body]


def deaths_table(found: Figures) -> Table:
    """Return how many robots stand after their planner died in mid-trot."""
    head = ["planner dies", "robot", "upright", "largest tilt [mrad]", "mean |dτ/dt| [N·m/s]"]
    body = []
    for robot, outcomes in grouped(found["deaths"], 0).items():
        each = [outcome.summary for outcome in outcomes]
        worst, rate = max(1e3 * s.tilt for s in each), float(np.mean([s.torque_rate for s in each]))
        body.append(["while trotting", robot, f"{sum(s.upright for s in each)} of {len(each)}", f"{worst:.3g}", f"{rate:.3g}"])
    return [head, *body]


def rates_picture(found: Figures) -> bytes:
    """Draw the mean torque rates of both planners, relative to the weight, one point per robot and pattern."""
    runs: dict[tuple[str, str, str], list[Outcome]] = grouped(found["gaits"], 0, 1, 2)
    patterns = list(dict.fromkeys(point[0] for point in runs))
    lines: dict[str, Line] = {}
    for robot, planner in dict.fromkeys(point[1:] for point in runs):
        rates = [[o.summary.torque_rate for o in runs[pattern, robot, planner]] for pattern in patterns]
        weight = runs[patterns[0], robot, planner][0].summary.weight
        lines[f"{robot}, {planner}"] = np.arange(len(patterns)), np.mean(rates, axis=1) / weight
    axes = {"xlabel": " – ".join(patterns), "ylabel": "mean |dτ/dt| / weight [m/s]"}
    return picture([Plot(lines=lines, legend=True, axes=axes)], size=(7.0, 4.0))


def study(seeds: int | None) -> Study:
    """Return the study. seeds: per robot, None: `SEEDS`"""

    def death(robot: str, k: int) -> Outcome:
        dies = DIES + k * gait_of(robot, "trot").period / DEATHS
        return outcome_of(robot, "trot", True, 0, dies, dies + AFTER)

    axes = list(SPEEDS), list(ROBOTS), PLANNERS, range(seeds or SEEDS)
    return Study(
        "A planner beside the loop",
        f"Gaits of {SECONDS:g} s in MuJoCo on its default ground, with foot switches and displaced starts, forward at "
        + ", ".join(f"{speed:g} m/s ({name})" for name, speed in SPEEDS.items())
        + ".",
        sweeps={
            "gaits": Sweep(axes, lambda pattern, robot, *rest: outcome_of(robot, pattern, *rest)),
            "deaths": Sweep((list(ROBOTS), range(DEATHS)), death),
        },
        tables=(gaits_table, deaths_table),
        pictures=(Picture("torque-rates", "Mean torque rates of both planners.", rates_picture),),
        notes=lambda _: [
            "Both planners have the same gait: patterns, period, duty factor and step height. The planner beside the loop "
            "sends tasks at 100 Hz, 3 ms after the state that it has seen. Figures are those of whole runs from a standing "
            "start. A planner that dies sends nothing any more, at twelve times within one period of the gait."
        ],
    )
