"""What a simulated robot's client heard from its server, in lines for the user."""

import msgspec
import numpy as np
from test_commanded_tasks import Planned

from idyn.tasks import FrameTask
from sim_harness.run.experiment import Listener
from transport.protocol.messages.command import CommandAck, CommandMessage
from transport.protocol.task_input import write_tasks


def test_messages_and_tasks_are_counted():
    run = Planned()
    run.client = Listener(run.client)
    tasks = [
        FrameTask(frame="root_joint", name="trunk", position=run.stance[:3]),
        FrameTask(frame="root_joint", name="far", position=[9.0, 0.0, 0.0], level=1),
    ]
    command = CommandMessage(session=run.session, valid_for=0.005, tasks=write_tasks(tasks))
    assert isinstance(run.ask(command), CommandAck)
    run.run(0.02)
    messages, tasks = [reply.message for _, _, reply in run.replies], [reply.tasks for _, _, reply in run.replies]
    lines = run.client.report()
    expired = sum("expired" in message for message in messages)
    assert any(line.startswith(f"in {expired} ticks: ") and "expired" in line for line in lines)
    far = [task for reply in tasks for task in reply if task.name == "far"]
    worst = np.max([task.missing for task in far])
    met = sum(task.met for task in far)
    assert f"task far: met in {met} of {len(far)} ticks, at most {worst:.3g} m/s², rad/s² or N off" in lines


def test_messages_that_differ_by_numbers_are_one_line():
    run = Planned()
    run.run(0.001)
    reply = run.replies[-1][2]

    class Client:
        number, error = 0, None

        def exchange(self, state):
            self.number += 1
            return msgspec.structs.replace(reply, message=f"the demand exceeds the limits by {self.number}.5 N·m")

    listener = Listener(Client())
    for _ in range(3):
        listener.exchange(None)
    assert listener.report() == ("in 3 ticks: the demand exceeds the limits by 1.5 N·m",)
