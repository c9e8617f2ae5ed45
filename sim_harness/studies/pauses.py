"""Study of a walk during which the process of the server or of the robot is stopped for a while (SIGSTOP).

Server and robot communicate over sockets. While the server is stopped, the robot's failsafe acts and the world continues. At
all other times the world waits for the replies, so that other load on the machine has no effect. A stopped robot process stops
its world as well. A robot whose failsafe has stopped it is reset at rest, as by an operator, and continues to walk.
"""

import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Axes, Plot, picture
from sim_harness.report.tables import Table, listed
from sim_harness.run.plan import Plan, hello_of, load_plan, simulated_robot, with_controller
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.study import Figures, Picture, Study, Sweep
from transport.protocol.messages.requests import Hello
from transport.protocol.messages.state import StateMessage, TorqueMessage
from transport.robot.client import DEADLINE_MS, RobotClient

Who = Literal["server", "robot"]
WHO: tuple[Who, ...] = ("server", "robot")

PAUSE_AT, BEFORE, SETTLE, AFTER = 1.0, 2.5, 1.0, 3.0
"""Time at which the pause begins; durations of the walk with the pause, of standing before a reset, of the last walk [s]."""

PATIENCE_MS = 2000
"""Deadline for replies of a running server [ms], longer than any reply takes."""

VELOCITY = (0.15, 0.0, 0.0)
"""Velocity of the walk [m/s, m/s, rad/s]."""

COLOURS = {
    "failsafe:follow": "#f4c95d",
    "failsafe:rest": "#e08e45",
    "failsafe:stopped": "#c1440e",
    "failsafe:damping": "#7d1128",
}
"""Colour of each mode of the failsafe, in order of severity; ticks with torques of the server are white."""

STEP = 50
"""Ticks over which a speed is averaged."""

WORDS = {True: "yes", False: "no", None: "–"}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a pause."""

    who: Who  # which process was stopped
    milliseconds: int  # duration of the pause [ms]
    law: str  # of the server
    ticks: dict[str, int]  # number of ticks in each mode of the reply or the failsafe
    longest_tick: float  # in wall-clock time [s]
    stopped: bool  # whether the failsafe stopped the robot until a reset
    reset: bool | None  # whether the server accepted the reset, None without a reset
    upright: bool  # whether the robot never fell
    walked: float  # distance travelled by the base in the plane after pause and reset [m]
    traces: tuple[Trace, ...]  # (walk with the pause, standing if the failsafe stopped the robot, walk afterwards)

    @property
    def figures(self) -> dict[str, object]:
        """All fields but the traces."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "traces"}

    @property
    def words(self) -> str:
        """The outcome in one sentence."""
        modes = [f"{n} ms {mode.removeprefix('failsafe:')}" for mode, n in self.ticks.items() if mode.startswith("failsafe:")]
        events = f"failsafe of the robot: {', '.join(modes)}" if modes else "no reply was missed"
        if self.who == "robot":
            events = f"its world stopped with it (longest tick {1e3 * self.longest_tick:.0f} ms); {events}"
        if self.stopped:
            events += "; stopped at rest, " + ("reset, continued to walk" if self.reset else "the server refused the reset")
        end = f"{self.walked:.2f} m further, upright" if self.upright else "FELL"
        return f"{self.law}: {self.who} stopped for {self.milliseconds} ms: {events}; {end}"


def walking(experiment: str) -> Plan:
    """Return the plan of an experiment whose robot walks straight ahead."""
    return with_controller(load_plan(experiment), {"reference": {"path": {"waypoints": [], "velocity": list(VELOCITY)}}})


def run_pause(plan: Plan, law: str, who: Who, milliseconds: int) -> Outcome:
    """Run a walk in which a process is stopped during the trot. who: which process; milliseconds: duration of the pause"""
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law=law, endpoint=f"ipc://{sockets}/server")
        robot, _ = load_robot(plan.controller.robot)
        hello = hello_of(plan, robot)
        with ServerProcess(settings, plan.controller) as server, Stopping(server, hello, who, milliseconds) as client:
            client.hello()
            side = simulated_robot(plan, client)
            parts = [side.run_paced(BEFORE, waits=True)]
            stopped, reset = side.stopped, None
            if stopped:
                parts.append(side.run_paced(SETTLE, waits=True))
                reset = side.reset()
            parts.append(side.run_paced(AFTER, waits=True))
    q = np.concatenate([part.q for part in parts])
    return Outcome(
        who=who,
        milliseconds=milliseconds,
        law=law,
        ticks=dict(Counter(part.modes[mode] for part in parts for mode in part.mode)),
        longest_tick=float(np.diff(parts[0].wall).max()),
        stopped=stopped,
        reset=reset,
        upright=Posture(side.world.robot, side.world.terrain, q[0]).upright(q),
        traces=tuple(parts),
        walked=float(np.linalg.norm(np.diff(parts[-1].q[:, :2], axis=0), axis=1).sum()),
    )


class Stopping(RobotClient):
    """A client that stops the process of the server or of the robot once during the walk, and lets it continue.

    The end of the server's pause is measured on the robot's clock, which continues.
    """

    def __init__(self, server: ServerProcess, hello: Hello, who: Who, milliseconds: int) -> None:
        super().__init__(server.endpoint, hello, deadline_ms=PATIENCE_MS)
        self._server, self._who, self._pause = server.process.pid or 0, who, milliseconds * 1e-3
        self._begun = False

    def exchange(self, state: StateMessage) -> TorqueMessage | None:
        t = state.t_robot * 1e-9 - PAUSE_AT
        if not self._begun and t >= 0.0:
            self._begun = True
            if self._who == "robot":
                _stop_this_process(self._pause)
            else:
                os.kill(self._server, signal.SIGSTOP)
                self.deadline = DEADLINE_MS * 1e-3
        elif self._begun and t >= self._pause:
            os.kill(self._server, signal.SIGCONT)  # no effect on a running process
            self.deadline = PATIENCE_MS * 1e-3
        return super().exchange(state)


def _stop_this_process(seconds: float) -> None:
    """Stop this process for a while. A shell does it, because a stopped process cannot continue itself."""
    me = os.getpid()
    with subprocess.Popen(["sh", "-c", f"kill -STOP {me}; sleep {seconds}; kill -CONT {me}"]):
        pass


def study(experiment: str, law: str, milliseconds: Sequence[int]) -> Study:
    """Return the study. In separate walks, the server or the robot of an experiment is stopped for each duration [ms]."""
    plan = walking(experiment)
    return Study(
        "Pauses",
        "During a trot, the process of the server, or that of the robot with its world, is stopped (SIGSTOP) and continued. "
        "Both communicate over a socket. A robot that its failsafe has stopped is reset at rest, as by an operator.",
        sweeps={"pauses": Sweep((WHO, milliseconds), lambda who, pause: run_pause(plan, law, who, pause))},
        tables=(table,),
        pictures=(Picture("pauses", "Speed of the base over simulated time; colours: mode of the robot's failsafe.", walks),),
        notes=lambda found: [outcome.words for outcome in found["pauses"].values()],
    )


def table(found: Figures) -> Table:
    """Return a table with one row for each pause."""
    columns: dict[str, Callable[[Outcome], str]] = {
        "for ms": lambda o: str(o.milliseconds),
        "law": lambda o: o.law,
        "upright": lambda o: WORDS[o.upright],
        "stopped by failsafe": lambda o: WORDS[o.stopped],
        "reset": lambda o: WORDS[o.reset],
        "walked afterwards m": lambda o: f"{o.walked:.2f}",
        "longest tick ms": lambda o: f"{1e3 * o.longest_tick:.0f}",
    }
    return listed("stopped", ((outcome.who, outcome) for outcome in found["pauses"].values()), columns)


def walks(found: Figures) -> bytes:
    """Draw the speed of the base over time, in one panel for each pause."""
    panels: list[Plot] = []
    for o in found["pauses"].values():
        labels = {"title": f"{o.who} stopped for {o.milliseconds} ms", "ylabel": "m/s", "xlabel": "simulated time [s]"}
        panels.append(Plot(extra=partial(_walk, o.traces), axes=labels, legend=not panels))
    return picture(panels)


def _walk(traces: Sequence[Trace], axis: Axes) -> None:
    """Draw the speed of the base and the modes of the failsafe."""
    for trace in traces:
        places, t = trace.q[::STEP, :2], trace.t[::STEP]
        axis.plot(t[1:], np.linalg.norm(np.diff(places, axis=0), axis=1) / np.diff(t), color="0.3")
        modes = np.array(trace.modes)[trace.mode]
        how: dict[str, Any] = {"alpha": 0.5, "transform": axis.get_xaxis_transform(), "lw": 0}
        for mode, colour in COLOURS.items():
            label = mode.removeprefix("failsafe:") if trace is traces[0] else ""
            axis.fill_between(trace.t, 0, 1, where=modes == mode, color=colour, label=label, **how)
