"""Robots in MuJoCo whose messages are plausibly wrong: what the server says first, when it stops, how far the base tilts."""

from typing import NamedTuple

import msgspec
import numpy as np

from controllers.build import build_controller
from idyn.model.so3 import tilt
from sim_harness.measure.fall import Posture
from sim_harness.run.plan import load_plan, simulated_robot, with_controller
from transport.protocol.messages.state import Contact
from transport.robot.client import hello_for
from transport.server.service import Service
from transport.startup.loopback import Loopback

AFTER = 0.8
"""Time from the fault to the end of a run [s]."""


ORDINARY = "the demand exceeds the torque limits"
"""Message about a hard step of an undisturbed trot."""


STRAIGHT = {"waypoints": [[20.0, 0.0]]}


class Outcome(NamedTuple):
    """
    named: time from the fault to the first answer that is not `ok` [s], inf: never; says: its message
    stopped: time from the fault until the torque damps [s]; fell: time from the fault to the fall [s]; worst: tilt [rad]
    early: first message before the fault; ''
    """

    named: float
    says: str
    stopped: float
    fell: float
    worst: float
    early: str

    @property
    def stands(self):
        """Whether the server stopped the robot before it fell."""
        return self.stopped < self.fell


class Wrong(Loopback):
    """A client whose states are changed from a time on. wrong: (message, robot side) → message"""

    def __init__(self, service, robot, wrong, start, now):
        super().__init__(service, hello_for(robot, 1e-3, kind="sim"), clock=lambda: now[0])
        self.wrong, self.start, self.now, self.replies, self.states = wrong, start, now, [], []

    def exchange(self, state):
        self.now[0] += 1_000_000
        if self.now[0] * 1e-9 > self.start and self.wrong is not None:
            state = self.wrong(state)
        reply = super().exchange(state)
        status, text = ("fault", self.error.message) if reply is None else (reply.status, reply.message)
        self.replies.append((self.now[0] * 1e-9, status, text))
        self.states.append((state, reply))
        return reply


def plan_of(name, *, standing=False, duration=5.0, path=STRAIGHT, **settings):
    """Return the plan of a trot (or of standing) in MuJoCo with foot switches. path: of the trot"""
    plan = load_plan(f"trot-{name}", duration, engine="mujoco")
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, contacts="binary", **settings))
    changes = {"reference": "hold"} if standing else {"reference": {"path": path}}
    return with_controller(plan, changes)


def build(plan, wrong=None, start=np.inf, controller=None):
    """Return client and simulated robot, in its initial state; the service runs in this process."""
    controller = build_controller(plan.controller) if controller is None else controller
    now = [0]
    client = Wrong(Service(controller, plan.server, clock=lambda: now[0]), controller.robot, wrong, start, now)
    side = simulated_robot(plan, client, seed=1)
    client.hello()
    return client, side


class WeakMotor:
    """A world in which a motor gives a share of its torque from a time on. torque: the last torque [N·m] (na)"""

    def __init__(self, world, joint, share, start):
        self._world, self._joint, self._share, self._start = world, joint, share, start
        self.torque = np.zeros(world.robot.na)

    def __getattr__(self, name):
        return getattr(self._world, name)

    def step(self, tau, dt, pushes=()):
        self.torque = tau.copy()
        if self._world.t >= self._start:
            self.torque[self._joint] *= self._share
        return self._world.step(self.torque, dt, pushes)


def provoke(plan, wrong=None, start=1.2, controller=None, motor=None):
    """Run a robot whose states are wrong from `start` on. motor: (joint, share of its torque) from then on, which it reports"""
    client, side = build(plan, wrong, start, controller)
    if motor is not None:
        weak = side.world = WeakMotor(side.world, *motor, start)
        client.wrong = changed(tau_applied=lambda tau, _: weak.torque)
    posture = Posture(side.world.robot, side.world.terrain, side.world.q)
    trace = side.run(start + AFTER)
    since = trace.t - start
    up = posture.upright(trace.q[:1])
    assert up
    fell = next((float(t) for t, q in zip(since, trace.q, strict=True) if not posture.upright(q[None])), np.inf)
    found = [(t - start, status, text) for t, status, text in client.replies if status != "ok" and ORDINARY not in text]
    early = next((text for t, _, text in found if t <= 0.0), "")
    named, _, says = next((each for each in found if each[0] > 0.0), (np.inf, "", ""))
    damps = ("fault", "damping")
    stopped = next((t for t, status, _ in found if status in damps), np.inf)
    return Outcome(named, says, stopped, fell, max(tilt(q[3:7]) for q in trace.q[since > 0]), early)


def vector(data):
    return np.frombuffer(data).copy()


def changed(**changes):
    """Return a change of states. changes: field → function of its numbers and of the number of wrong states so far"""
    count = [0]

    def change(state):
        count[0] += 1
        fields = {name: f(vector(getattr(state, name)), count[0]).tobytes() for name, f in changes.items()}
        return msgspec.structs.replace(state, **fields)

    return change


def contacts(change, names):
    """Return a change of foot switches. change: (set of the feet that touch, number of wrong states so far) → set"""
    count = [0]

    def wrong(state):
        count[0] += 1
        touching = change({each.frame for each in state.contacts}, count[0])
        return msgspec.structs.replace(state, contacts=[Contact(frame=name) for name in names if name in touching])

    return wrong
