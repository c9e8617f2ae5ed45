"""A walk during which the server's process, or the robot's, is stopped for a while (SIGSTOP), over real sockets.

While the server is stopped the world goes on under the robot's own failsafe; at all other times it waits for the replies, so
that a busy machine does not show. The robot's world is stopped with it. A robot that stopped itself for good is reset at rest,
as by an operator, and walks on.
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
from matplotlib.axes import Axes

from controllers.robot.load import load_robot
from sim_harness.compare.study import Figures, Picture, Study, Sweep
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import Trace
from sim_harness.report.plots import Plot, picture
from sim_harness.report.tables import Table, listed
from sim_harness.run.plan import Plan, load_plan, with_controller
from sim_harness.run.scene import simulated_robot
from sim_harness.run.server_process import ServerProcess
from transport.protocol.messages.hello import Hello
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.robot.client import DEADLINE_MS, RobotClient
from transport.robot.conversation import hello_for

Who = Literal["server", "robot"]
WHO: tuple[Who, ...] = ("server", "robot")

PAUSE_AT, BEFORE, SETTLE, AFTER = 1.0, 2.5, 1.0, 3.0
"""When the process is stopped, and how long the robot walks around that, stands, and walks on [s]."""

PATIENCE_MS = 2000
"""Longer than any reply of a running server takes."""

VELOCITY = (0.15, 0.0, 0.0)
"""Of the walk [m/s, m/s, rad/s]."""

COLOURS = {
    "failsafe:follow": "#f4c95d",
    "failsafe:rest": "#e08e45",
    "failsafe:stopped": "#c1440e",
    "failsafe:damping": "#7d1128",
}
"""Of the robot's own side, from the mildest on; white is the server's."""

STEP = 50
"""Ticks over which a speed is taken."""

WORDS = {True: "yes", False: "no", None: "–"}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One pause.

    who, milliseconds: was stopped for how long; law: of the server
    ticks: of the world spent in each mode of the robot's own side
    longest_tick: on this machine's clock [s]
    stopped: whether the robot stopped itself until reset; reset: whether the server then allowed it, None: not asked
    upright: whether it never fell; walked: by the base in the plane after all that [m]
    traces: before, at rest when it stopped itself, and after
    """

    who: Who
    milliseconds: int
    law: str
    ticks: dict[str, int]
    longest_tick: float
    stopped: bool
    reset: bool | None
    upright: bool
    walked: float
    traces: tuple[Trace, ...]

    @property
    def figures(self) -> dict[str, object]:
        """All but the traces."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "traces"}

    @property
    def words(self) -> str:
        """A sentence."""
        own = [f"{n} ms {mode.removeprefix('failsafe:')}" for mode, n in self.ticks.items() if mode.startswith("failsafe:")]
        what = f"the robot's own side: {', '.join(own)}" if own else "no answer was missed"
        if self.who == "robot":
            what = f"its world stood still with it (longest tick {1e3 * self.longest_tick:.0f} ms); {what}"
        if self.stopped:
            what += "; stopped at rest, " + ("reset, walked on" if self.reset else "and could not be reset")
        end = f"{self.walked:.2f} m further, upright" if self.upright else "FELL"
        return f"{self.law}: {self.who} stopped for {self.milliseconds} ms: {what}; {end}"


def walking(experiment: str) -> Plan:
    """An experiment whose robot walks straight on."""
    return with_controller(load_plan(experiment), {"reference": {"path": {"waypoints": [], "velocity": list(VELOCITY)}}})


def run_pause(plan: Plan, law: str, who: Who, milliseconds: int) -> Outcome:
    """Walk, be stopped in mid-trot, and go on."""
    with tempfile.TemporaryDirectory(prefix="idyn-") as sockets:
        settings = msgspec.structs.replace(plan.server, law=law, endpoint=f"ipc://{sockets}/server")
        robot, _ = load_robot(plan.controller.robot)
        hello = hello_for(robot, plan.controller.period, kind="sim")
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
    """A client that stops a process once during the walk and continues it; the server by the robot's clock, which goes on."""

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
            os.kill(self._server, signal.SIGCONT)  # has no effect on a running process
            self.deadline = PATIENCE_MS * 1e-3
        return super().exchange(state)


def _stop_this_process(seconds: float) -> None:
    """A stopped process cannot continue itself: a shell does both."""
    me = os.getpid()
    with subprocess.Popen(["sh", "-c", f"kill -STOP {me}; sleep {seconds}; kill -CONT {me}"]):
        pass


def study(experiment: str, law: str, milliseconds: Sequence[int]) -> Study:
    """Server and robot of an experiment are stopped, for each of the times."""
    plan = walking(experiment)
    return Study(
        "Pauses",
        "A process is stopped (SIGSTOP) in mid-trot, the server's or the robot's with its world, and continued; both talk over "
        "a real socket. A robot that stopped itself for good is reset at rest, as an operator would.",
        sweeps={"pauses": Sweep((WHO, milliseconds), lambda who, pause: run_pause(plan, law, who, pause))},
        tables=(table,),
        pictures=(
            Picture(
                "pauses",
                "Speed of the base over the world's time; colours: what the robot's own side did meanwhile.",
                walks,
            ),
        ),
        notes=lambda found: [outcome.words for outcome in found["pauses"].values()],
    )


def table(found: Figures) -> Table:
    columns: dict[str, Callable[[Outcome], str]] = {
        "for ms": lambda o: str(o.milliseconds),
        "law": lambda o: o.law,
        "upright": lambda o: WORDS[o.upright],
        "stopped itself": lambda o: WORDS[o.stopped],
        "reset": lambda o: WORDS[o.reset],
        "walked on m": lambda o: f"{o.walked:.2f}",
        "longest tick ms": lambda o: f"{1e3 * o.longest_tick:.0f}",
    }
    return listed("stopped", ((outcome.who, outcome) for outcome in found["pauses"].values()), columns)


def walks(found: Figures) -> bytes:
    """Speed of the base, one panel for each pause."""
    panels: list[Plot] = []
    for o in found["pauses"].values():
        labels = {"title": f"{o.who} stopped for {o.milliseconds} ms", "ylabel": "m/s", "xlabel": "time of the world [s]"}
        panels.append(Plot(extra=partial(_walk, o.traces), axes=labels, legend=not panels))
    return picture(panels)


def _walk(traces: Sequence[Trace], axis: Axes) -> None:
    for trace in traces:
        places, t = trace.q[::STEP, :2], trace.t[::STEP]
        axis.plot(t[1:], np.linalg.norm(np.diff(places, axis=0), axis=1) / np.diff(t), color="0.3")
        modes = np.array(trace.modes)[trace.mode]
        how: dict[str, Any] = {"alpha": 0.5, "transform": axis.get_xaxis_transform(), "lw": 0}
        for mode, colour in COLOURS.items():
            label = mode.removeprefix("failsafe:") if trace is traces[0] else ""
            axis.fill_between(trace.t, 0, 1, where=modes == mode, color=colour, label=label, **how)
