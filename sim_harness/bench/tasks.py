"""Benchmark of ticks of tasks: base, two feet and posture of a standing robot."""

from functools import partial

import msgspec
import numpy as np

from controllers.robot.load import load_robot
from idyn.prediction.predict import predict
from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks
from idyn.types import ContactSet
from sim_harness.bench.batch_bench import Work, fastest
from sim_harness.bench.laws import Sample, workload
from sim_harness.compare.timing import DT
from sim_harness.report.tables import Table

SLIPPERY, SIDEWAYS = 0.1, 3.0
"""Friction coefficient of slippery ground, and acceleration that is asked of the base on it [m/s²]. Friction gives 1 m/s²."""


def bench_tasks(robot_name: str) -> dict[str, dict[str, float]]:
    """Return the time [µs] of a prediction, of a tick of tasks in which no limit binds, and of one in which friction binds, and
    its multiple of the prediction. Without entries for robots that do not stand on two contacts or more.

    The law is `coulomb`; the tasks hold the base and two feet (level 0) and the posture (level 1).
    """
    robot, stance = load_robot(robot_name)
    keys = robot.spheres.keys
    if not robot.floating or len(keys) < 2:
        return {}
    samples, base = workload(robot, stance, len(keys)), robot.frames.placement("root_joint", stance)
    posture = PostureTask(angles=robot.joint_angles(stance), level=1)
    feet = []
    for key in keys[:2]:
        frame = key.rsplit("/", 1)[0]
        feet.append(FrameTask(frame=frame, position=robot.frames.placement(frame, stance).translation))
    held = FrameTask(frame="root_joint", position=base.translation, rotation=base.rotation)
    pushed = msgspec.structs.replace(held, acceleration=np.array([0.0, SIDEWAYS, 0.0, 0.0, 0.0, 0.0]))
    free, bound = (TaskStack(tasks=[task, *feet, posture]) for task in (held, pushed))
    slippery = [msgspec.structs.replace(each, contacts=on_slippery_ground(each)) for each in samples]

    other = robot.twin()  # with workspaces of its own, as tasks predict with other options

    def predictions() -> None:
        guess = None
        for each in samples:
            guess = predict(other, each.state, each.contacts, each.consistent, law="coulomb", dt=DT, guess=guess).guess

    def ticks(stack: TaskStack, chosen: list[Sample]) -> None:
        guess = None
        for each in chosen:
            guess = predict_tasks(robot, each.state, each.contacts, stack, law="coulomb", dt=DT, guess=guess).prediction.guess

    count = len(samples)
    variants: dict[str, Work] = {
        "prediction": (predictions, count),
        "no limit binds": (partial(ticks, free, samples), count),
        "friction binds": (partial(ticks, bound, slippery), count),
    }
    spent = {name: 1e6 * seconds for name, seconds in fastest(variants).items()}
    return {name: {"us": each, "predictions": each / spent["prediction"]} for name, each in spent.items()}


def on_slippery_ground(sample: Sample) -> ContactSet:
    """Return the contacts of a sample with the friction coefficient SLIPPERY."""
    return msgspec.structs.replace(sample.contacts, mu=np.full(len(sample.contacts), SLIPPERY))


def tasks_table(result: dict[str, dict[str, float]]) -> Table:
    """Return the table of times [µs] and ratios."""
    rows = [["a tick of tasks", "µs", "predictions"]]
    return rows + [[name, f"{each['us']:.0f}", f"{each['predictions']:.1f}"] for name, each in result.items()]
