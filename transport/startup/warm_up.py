"""Warm-up: the first ticks of a controller and of its service, before a client connects."""

from collections.abc import Callable, Iterator

import numpy as np

from controllers.controller import Controller
from idyn.solvers.qp import backends
from idyn.types import ContactSet
from transport.protocol.joint_map import BASE_Q, BASE_V
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import Contact, Imu, Reference, StateMessage
from transport.robot.client import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

TICKS = 10  # number of states of each kind

TICK_NS = 1_000_000

SWAY = 1e-3  # speed of every joint in every second state [rad/s]; states at rest take other branches


def warm_up(controller: Controller, settings: ServerSettings) -> None:
    """Send encoded states of every kind in the stance to a service, and reset the controller.

    A robot's first ticks are then as quick as the later ones. The controller is also reset before each kind of state.
    """
    backends()  # a fallback of a later tick must not wait for their imports
    robot = controller.robot
    clock = iter(range(0, 10**12, TICK_NS))
    service, client = connected(controller, settings, clock.__next__)
    q, rest = controller.stance.tobytes(), np.zeros(robot.nv).tobytes()
    speeds = (rest, np.full(robot.nv, SWAY).tobytes())
    t_robot = 0
    for extra in _kinds(controller):
        client.ask(Reset(session=client.session, q=q, vel=rest))
        for tick in range(TICKS):
            t_robot += TICK_NS
            client.exchange(StateMessage(q=q, vel=speeds[tick % 2], t_robot=t_robot, **extra))  # type: ignore[arg-type]
    if controller.estimator() is not None:
        _warm_up_estimator(controller, service, clock.__next__)
    controller.reset()


def connected(controller: Controller, settings: ServerSettings, clock: Callable[[], int]) -> tuple[Service, Loopback]:
    """Return a service and its client, which has said hello. clock: time [ns]"""
    service = Service(controller, settings)
    client = Loopback(service, hello_for(controller.robot, TICK_NS * 1e-9, kind="sim"), clock=clock)
    client.hello()
    return service, client


def _warm_up_estimator(controller: Controller, service: Service, clock: Callable[[], int]) -> None:
    """Send states without a base."""
    robot, q = controller.robot, controller.stance[BASE_Q:].tobytes()
    level = Imu(quat=[0.0, 0.0, 0.0, 1.0], gyro=[0.0] * 3, acc=(-np.array(robot.bodies.gravity)).tobytes())
    client = Loopback(service, hello_for(robot, TICK_NS * 1e-9, kind="sim", measured="imu"), clock=clock)
    client.hello()
    rest, no_torque = np.zeros(robot.nv - BASE_V).tobytes(), np.zeros(robot.na).tobytes()
    for tick in range(TICKS):
        client.exchange(StateMessage(q=q, vel=rest, t_robot=(tick + 1) * TICK_NS, tau_meas=no_torque, imu=level))


def _kinds(controller: Controller) -> Iterator[dict[str, object]]:
    robot, q = controller.robot, controller.stance
    contacts = controller.contacts(q)
    zero = np.zeros(robot.na)
    applied = zero.tobytes()
    yield {}
    yield {"tau_applied": applied}
    yield {"contacts": []}
    yield {"contacts": _reported(contacts, 0.0, sensed=False)}
    yield {"contacts": _reported(contacts, 0.0, sensed=True), "tau_applied": applied}
    yield {"contacts": _reported(contacts, 1e-3, sensed=True)[1:], "tau_applied": applied}
    angles = robot.joint_angles(q).tobytes()
    yield {"ref": Reference(q=angles, v=applied, a=applied), "tau_applied": applied}


def _reported(contacts: ContactSet, dist: float, *, sensed: bool) -> list[Contact]:
    """Return contacts as a robot reports them, with or without tangents and measured forces."""
    carried = np.zeros(3).tobytes()
    return [
        Contact(
            frame=key,
            p=contacts.points[i].tobytes(),
            n=contacts.normals[i].tobytes(),
            dist=dist,
            t1=contacts.tangents[i].tobytes() if sensed else None,
            f_sensed=carried if sensed else None,
            sensed_valid=sensed,
        )
        for i, key in enumerate(contacts.keys)
    ]
