"""Faults of planners: commands that are late, malformed, contradictory, unreachable, or of somebody else."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from faults import told
from trial import AFTER, BEFORE, Trial, serving

from idyn.tasks import ComTask, ForceTask, FrameTask
from transport.protocol.messages.error import Code
from transport.robot.planner import CommandRefused, PlannerClient


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with serving(tmp_path) as server:
        trial = Trial(server)
        yield trial
        trial.close()


def planning(trial: Trial, work: Callable[[PlannerClient], object], modes: tuple[str, ...] = ("ok",)) -> None:
    """Let a planner work while the robot goes on: every torque is checked, and every mode is one of `modes`."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            with PlannerClient(trial.server.address, "mpc", timeout_ms=20_000) as planner:
                work(planner)
        except BaseException as error:
            problems.append(error)

    assert set(trial.run(BEFORE)) == {"ok"}
    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        assert set(trial.run(10)) <= set(modes)
    if problems:
        raise problems[0]
    assert set(trial.run(AFTER)) <= set(modes)


def base(trial: Trial, shift: tuple[float, float, float] = (0.0, 0.0, 0.0), **fields: object) -> FrameTask:
    stance = trial.server.controller.stance
    return FrameTask(frame="root_joint", position=stance[:3] + np.array(shift), **fields)  # type: ignore[arg-type]


def messages(trial: Trial) -> set[str]:
    return {reply.message for reply in trial.client.received[-50:]}


@told("the commands of a planner end", "`the last command has expired …`", "stands")
def test_a_planner_ends(trial: Trial) -> None:
    planning(
        trial,
        lambda planner: planner.command(valid_for=0.05, tasks=[base(trial, (0.01, 0.0, 0.0), velocity=[0.1] + [0.0] * 5)]),
    )
    assert any("expired" in message for message in messages(trial))
    before = trial.client.received[-1]
    trial.run(AFTER)
    assert np.abs(np.frombuffer(trial.client.received[-1].tau) - np.frombuffer(before.tau)).max() < 1.0  # type: ignore[arg-type]


@told("a planner that is not listed sends plan_hello", "`not_controlling`", "goes on")
def test_an_unknown_planner(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        with pytest.raises(CommandRefused, match="'stranger' is not in") as refused:
            PlannerClient(trial.server.address, "stranger")
        assert refused.value.error.code is Code.NOT_CONTROLLING

    planning(trial, work)


@told("a second planner commands while the command of another one is in force", "`not_controlling`", "goes on")
def test_two_planners(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        planner.command(valid_for=5.0, tasks=[base(trial)])
        with PlannerClient(trial.server.address, "joystick", timeout_ms=20_000) as other:
            for _ in range(50):
                with pytest.raises(CommandRefused, match="another client is in force"):
                    other.command(valid_for=1.0, tasks=[base(trial, (0.2, 0.0, 0.0))])

    planning(trial, work)


@told("a planner starts twice under one name", "`not_controlling`, while the command of the first is in force", "goes on")
def test_a_name_twice(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        planner.command(valid_for=5.0, tasks=[base(trial)])
        with pytest.raises(CommandRefused, match="another 'mpc'"):
            PlannerClient(trial.server.address, "mpc")
        planner.command(valid_for=0.01, tasks=[base(trial)])
        time.sleep(0.02)
        PlannerClient(trial.server.address, "mpc", timeout_ms=20_000).close()

    planning(trial, work)


@told("NaN and Inf in the targets of commands", "`non_finite`", "goes on")
def test_commands_with_nan(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        planner.command(valid_for=5.0, tasks=[base(trial)])
        for i in range(50):
            wrong = ComTask(position=[0.0, float("nan") if i % 2 else float("inf"), 0.0])
            with pytest.raises(CommandRefused, match=r"tasks\[1\].position\[1\]"):
                planner.command(valid_for=1.0, tasks=[base(trial), wrong])

    planning(trial, work)
    assert messages(trial) == {""}


@told("a command of 33 tasks, and one of 100 kB", "`bad_schema`", "goes on")
def test_commands_that_are_too_large(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        with pytest.raises(CommandRefused, match="at most 32"):
            planner.command(valid_for=1.0, tasks=[base(trial)] * 33)
        with pytest.raises(CommandRefused, match="at most 65536 bytes"):
            planner.command(valid_for=1.0, tasks=[base(trial, name="x" * 100_000)])

    planning(trial, work)


@told("targets that standing feet and the weight do not permit", "the tasks are not met, and what is missing", "goes on")
def test_unreachable_targets(trial: Trial) -> None:
    foot = trial.robot.contact_names[0]

    def work(planner: PlannerClient) -> None:
        far = FrameTask(frame="LF_FOOT" if "LF_FOOT" in trial.robot.frames.names else foot, position=[10.0, 0.0, 0.0], level=1)
        push = ForceTask(contacts=foot, normal=1e5, level=2)
        for _ in range(50):
            planner.command(valid_for=0.2, tasks=[base(trial, rotation=np.eye(3)), far, push])
            time.sleep(0.01)

    planning(trial, work)
    assert any(not task.met for reply in trial.client.received for task in reply.tasks)


@told("a force that tips the base over, as no task holds its attitude", "`latched (base turns …)`", "damps until `reset`")
def test_a_command_that_tips_the_base(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        tasks = [base(trial), ForceTask(contacts=trial.robot.contact_names[0], normal=1e5, level=1)]

        def go_on() -> None:
            for _ in range(500):
                planner.command(valid_for=0.2, tasks=tasks)
                time.sleep(0.01)

        with pytest.raises(CommandRefused, match="base turns"):
            go_on()

    planning(trial, work, modes=("ok", "failsafe:damping"))


@told("contradictory tasks at one level", "the tasks are not met, and what is missing", "goes on")
def test_contradictory_targets(trial: Trial) -> None:
    def work(planner: PlannerClient) -> None:
        both = [base(trial, (0.05, 0.0, 0.0), name="one"), base(trial, (-0.05, 0.0, 0.0), name="other")]
        for _ in range(50):
            planner.command(valid_for=0.2, tasks=both)
            time.sleep(0.01)

    planning(trial, work)
    assert any(not task.met for reply in trial.client.received for task in reply.tasks)


@told(
    "modes of contacts and targets change with every command, as fast as the planner can send",
    "–, or a fault: `roughness: the torques oscillate …`",
    "goes on, or damps until `reset`",
)
def test_flickering_commands(trial: Trial) -> None:
    foot = trial.robot.contact_names[0]

    def work(planner: PlannerClient) -> None:
        for i in range(500):
            sign = 1.0 if i % 2 else -1.0
            modes = {foot: "open"} if i % 2 else {}
            try:
                planner.command(valid_for=0.2, tasks=[base(trial, (0.005 * sign, 0.0, 0.0))], modes=modes)
            except CommandRefused as refused:
                if "the torques oscillate" not in str(refused):
                    raise
                return

    planning(trial, work, modes=("ok", "degraded", "fault", "failsafe:damping"))
    assert all("the torques oscillate" in fault for fault in trial.server.faults)
