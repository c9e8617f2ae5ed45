"""Plans that bring a robot down: what the server says of a robot that sinks while every answer is a torque."""

from collections import Counter

import msgspec
import numpy as np
from spoiled_sensors import Spoiled, plan_of

from controllers.build import build_controller
from sim_harness.run.plan import hello_of, simulated_robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages import FromServer
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import AnyTask, CommandMessage, ComPart, ForcePart, PlanHello, PlanWelcome
from transport.protocol.messages.state import StateMessage
from transport.server.service import Service

PERIOD = 20
"""Ticks between two commands."""


def planned(first: int, last: int, seconds: float) -> tuple[list[float], list[str], Spoiled]:
    """Let a planner alternate a task of the centre of mass and forces of zero, from one tick to another.

    Return the height of the base in each tick, over that at the start, the mode of each tick, and the robot's client.
    """
    plan = plan_of("stand", "measured")
    controller = build_controller(plan.controller)
    now = [0]  # [ns]
    service = Service(controller, msgspec.structs.replace(plan.server, planners=("plan",)), clock=lambda: now[0])
    client = Spoiled(service, hello_of(plan, controller.robot), clock=lambda: now[0])
    client.hello()

    def ask(message: PlanHello | CommandMessage) -> FromServer:
        return decode(service.handle(b"plan", encode(message), now[0]).reply)  # type: ignore[return-value]

    welcome = ask(PlanHello(name="plan"))
    assert isinstance(welcome, PlanWelcome), welcome
    nothing = [ForcePart(contacts=[key], force=[0.0] * 3) for key in controller.robot.contact_names]
    turns: tuple[list[AnyTask], ...] = ([ComPart()], [*nothing])

    def command(state: StateMessage) -> StateMessage:
        now[0], tick = state.t_robot, round(1e-6 * state.t_robot)
        if first <= tick < last and tick % PERIOD == 0:
            ask(CommandMessage(session=welcome.session, valid_for=0.1, tasks=turns[tick // PERIOD % 2]))
        return state

    client.change = command
    trace = simulated_robot(plan, client, seed=0).run(seconds)
    return (trace.q[:, 2] / trace.q[0, 2]).tolist(), [trace.modes[i] for i in trace.mode], client


def test_a_robot_that_tasks_lay_on_its_belly_is_named_and_stopped() -> None:
    height, modes, client = planned(300, 5000, 3.5)
    down = int(np.argmax(np.array(height) < 0.45))
    assert down
    assert "ok" not in modes[down:]
    assert isinstance(client.error, ErrorMessage)
    assert client.error.message.startswith("latched (sunk: the base has sunk by")
    assert Counter(modes[:300]) == {"ok": 300}
