"""Traces and figures of recorded logs, of real and of simulated robots alike."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from controllers.controller import Controller
from idyn.types import Record
from sim_harness.measure.metrics import Summary, summarise
from sim_harness.measure.trace import Trace
from sim_harness.measure.verdict import Task, Verdict, judge
from sim_harness.run.experiment import task_of
from sim_harness.run.log_blocks import Block, LogBlocks
from transport.log.part import LogError


class LoggedRun(Record, frozen=True):
    """A session of a controlling client.

    label: path of the log, with the number of the session from the second one on
    period: agreed period [s]
    steered: whether the server accepted commands, of this client or of a planner
    complete: whether the log was read to its end
    """

    label: str
    controller: Controller
    period: float
    trace: Trace
    steered: bool
    complete: bool

    @property
    def task(self) -> Task:
        return msgspec.structs.replace(task_of(self.controller.settings, self.controller.stance), steered=self.steered)

    @property
    def verdict(self) -> Verdict:
        """How it ended. A log does not have the planned length of the run: it counts as whole."""
        return judge(self.trace, self.controller.robot, self.task, ticks=len(self.trace), dt=self.period, cut=not self.complete)


def summarise_log(path: Path) -> list[Summary]:
    """Return a summary of each session of a controlling client that sent states, in order.

    Raises LogError, also for a log without such a session.
    Predicted contact forces are compared with `f_sensed` of the states; without them, force errors are NaN.
    """
    runs = logged_runs(path)
    if not runs:
        raise LogError(f"{path}: expected a session with states, found none")
    return [
        summarise(
            run.trace,
            run.controller.robot,
            run.task,
            label=run.label,
            engine="recorded",
            ticks=len(run.trace),
            dt=run.period,
        )
        for run in runs
    ]


def logged_runs(path: Path) -> list[LoggedRun]:
    """Return each session of a controlling client that sent states, in order. Raises LogError."""
    with LogBlocks(path) as log:
        runs = Runs(log)
        for _ in runs.blocks():
            pass
        return runs.finished()


class Runs:
    """The runs of a log whose blocks are read one after the other.

    log: the log
    """

    def __init__(self, log: LogBlocks) -> None:
        self.log = log
        self._parts: dict[int, list[Trace]] = {}
        self._periods: dict[int, float] = {}

    def blocks(self, progress: Callable[[int], None] = lambda _: None) -> Iterator[Block]:
        """Yield the blocks of the log, as `LogBlocks.blocks`."""
        for block in self.log.blocks(progress):
            self._parts.setdefault(block.session, []).append(block.trace)
            self._periods[block.session] = block.agreement.dt_ns * 1e-9
            yield block

    def finished(self) -> list[LoggedRun]:
        """Return the runs, in order, after the last block."""
        path = self.log.path
        return [
            LoggedRun(
                label=str(path) if session == 1 else f"{path} #{session}",
                controller=self.log.controller,
                period=self._periods[session],
                trace=Trace.joined(parts),
                steered=self.log.steered,
                complete=self.log.complete,
            )
            for session, parts in self._parts.items()
        ]
