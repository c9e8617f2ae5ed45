"""Commands the plan of `plan_jump.py` to a server, one row each 20 ms: `python follow_plan.py ENDPOINT jump.npz`.

The planner's name is "jump": the server's file has `planners = ["jump"]`.
"""

import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np

from idyn import PlannerClient
from idyn.tasks import FrameTask, PostureTask

VALID_FOR = 0.1
"""After this time without commands the robot stands [s]."""

STAND = 1.0
"""Time for which the last row is commanded [s]."""

Plan = Mapping[str, np.ndarray]


def tasks_of(plan: Plan, k: int, start: np.ndarray) -> tuple[Sequence[FrameTask | PostureTask], dict[str, str]]:
    """Return the tasks of a row, and the modes of the contacts. start: position of the base before the jump [m] (3)

    Standing feet move the base; in the air, only the joints follow the plan, and the feet are told to be open.
    """
    joints = PostureTask(
        name="joints",
        joints=plan["joints"].tolist(),
        angles=plan["angles"][k],
        velocity=plan["angle_velocity"][k],
        acceleration=plan["angle_acceleration"][k],
        level=1 if plan["stands"][k] else 0,
    )
    if not plan["stands"][k]:
        return [joints], {str(foot): "open" for foot in plan["feet"]}
    base = FrameTask(
        frame="root_joint",
        position=start + plan["position"][k] - plan["position"][0],
        rotation=plan["rotation"][k],
        velocity=plan["velocity"][k],
        acceleration=plan["acceleration"][k],
    )
    return [base, joints], {}


def main() -> None:
    endpoint, plan = sys.argv[1], dict(np.load(sys.argv[2]))
    period = float(plan["period"])
    with PlannerClient(endpoint, "jump") as planner:
        while planner.state is None:  # no robot yet
            planner.command(height=0.0, valid_for=0.1)
            time.sleep(0.1)
        time.sleep(1.0)  # the robot settles on its feet
        planner.command(height=0.0, valid_for=0.1)
        start, highest = planner.state.q[:3].copy(), 0.0
        begin, t, last = planner.t_robot, 0.0, len(plan["position"]) - 1
        while t < last * period + STAND:
            tasks, modes = tasks_of(plan, min(round(t / period), last), start)
            planner.command(valid_for=VALID_FOR, tasks=tasks, modes=modes)
            highest = max(highest, planner.state.q[2] - start[2])
            t = 1e-9 * (planner.t_robot - begin) + period  # on the robot's clock: a simulated robot may be slow
            time.sleep(period)
        end = planner.state.q[:3] - start
    print(f"base: {100 * highest:.1f} cm up; after the jump {100 * np.linalg.norm(end[:2]):.1f} cm beside its place")


if __name__ == "__main__":
    main()
