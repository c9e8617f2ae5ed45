"""A robot in MuJoCo whose server is commanded by the model-predictive planner, all in one process and in lock-step."""

from collections.abc import Callable
from time import thread_time

import msgspec
import numpy as np

from controllers.controller import Controller
from controllers.planners.mpc.planner import HORIZON, Asked, MpcPlanner
from idyn.types import State
from sim_harness.run.plan import Plan
from sim_harness.run.scene import hello_of
from transport.log.recorder import Recorder
from transport.loopback import Loopback
from transport.protocol.codec import decode, encode, vector
from transport.protocol.messages import FromClient, FromServer
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello, PlanWelcome
from transport.protocol.messages.error import ErrorMessage
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.task_input import write_tasks
from transport.server.service import Service

LATENCY = 3
"""Time from a state to the command that follows from it [ticks]."""

NAME = "plan"
"""Name of the planner."""


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
        command = CommandMessage(
            session=self._session,
            valid_for=HORIZON * self._every * self._dt,
            tasks=write_tasks(asked.tasks),
            modes=asked.modes,
        )
        reply = self._asked(command)
        if not isinstance(reply, CommandAck):
            self.refusals.append(str(reply))

    def _asked(self, message: FromClient) -> FromServer:
        reply = decode(self._service.handle(NAME.encode(), encode(message), self._now).reply)
        self._service.settle()
        return reply  # type: ignore[return-value]
