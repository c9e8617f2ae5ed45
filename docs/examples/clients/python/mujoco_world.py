"""MuJoCo behind a socket, in place of sensors and drives, for a client in any language."""

import msgpack  # type: ignore[import-untyped]
import numpy as np
import zmq

from idyn import Flat, contacts_from_geometry, load_robot
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.world.worlds import build_world


def simulate(address: str, name: str, ticks: int) -> float:
    """name: of a robot, or path of its configuration. Return the height of its base at the end [m]."""
    robot, stance = load_robot(name)
    world = build_world(MujocoSettings(), robot, Flat(), stance)
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(address)
        for tick in range(1, ticks + 1):
            tau = msgpack.unpackb(socket.recv())["tau"]
            if tick > 1:
                world.step(np.frombuffer(tau), 0.001)
            feet = list(contacts_from_geometry(robot, world.q, Flat(), margin=0.001).keys)
            now = 1_000_000 * tick  # ns
            socket.send(msgpack.packb({"q": world.q.tobytes(), "vel": world.v.tobytes(), "feet": feet, "t_robot": now}))
    return float(world.q[2])
