"""A server that is ready has no kernel left to compile: whatever a first state brings, it takes a way that was gone before."""

import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest
from fast import full

from controllers.build import load_controller
from controllers.config.loading import load
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from sim_harness.run.server_process import ServerProcess
from transport.protocol.messages.state import Contact, StateMessage, TorqueMessage
from transport.robot.client import RobotClient, hello_for
from transport.server.settings import ServerSettings
from transport.startup.warm_up import Precompilation

STATES = """
import gc, sys
import msgspec, numpy as np
from numba.core.dispatcher import Dispatcher
from controllers.config.loading import load
from controllers.build import load_controller
from controllers.command import Inputs
from controllers.command import Reference as JointReference
from idyn.types import State
from transport.robot.client import hello_for
from transport.startup.loopback import Loopback
from transport.protocol.messages.requests import Reset
from transport.protocol.messages.state import Contact, Flags, Reference, StateMessage
from transport.protocol.messages.state import TorqueMessage
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.warm_up import warm_up

def compiled():
    return {(d, s) for d in gc.get_objects() if isinstance(d, Dispatcher) for s in d.signatures}

settings = load("server", sys.argv[1], ServerSettings)
controller = load_controller(settings.controller)
warm_up(controller, settings)
robot, q = controller.robot, controller.stance
before = compiled()
assert before
there = controller.contacts(q)
feet = [
    Contact(frame=key, p=list(map(float, there.points[i])), n=[0.0, 0.0, 1.0], mu=0.7, dist=-1e-5)
    for i, key in enumerate(there.keys)
]
sensed = [msgspec.structs.replace(foot, t1=[1.0, 0.0, 0.0], f_sensed=[0.0, 0.0, 9.0], sensed_valid=True) for foot in feet]
still = [0.0] * robot.na
ref = Reference(q=list(map(float, robot.joint_angles(q))), v=still, a=still)
rng = np.random.default_rng(1)
for extra in ({"contacts": feet}, {}, {"contacts": sensed}, {"contacts": feet[:3]}, {"contacts": []}, {"ref": ref}):
    client = Loopback(Service(controller, settings), hello_for(robot, 1e-3))
    client.hello()
    vel = (0.05 * rng.normal(size=robot.nv)).tobytes()
    reply = client.exchange(StateMessage(q=q.tobytes(), vel=vel, t_robot=0, **extra))
    assert isinstance(reply, TorqueMessage), client.error

# a trot whose feet come and go, with friction of all sorts, resets, an emergency stop, demands beyond all motors
client = Loopback(Service(controller, settings), hello_for(robot, 1e-3))
client.hello()
wild = Reference(q=list(map(float, robot.joint_angles(q))), v=still, a=[1e6 * (-1) ** k for k in range(robot.na)])
for tick in range(120):
    if tick % 40 == 0:
        client.ask(Reset(session=client.session, q=q.tobytes(), vel=np.zeros(robot.nv).tobytes()))
    pair = (sensed, sensed[::3], sensed, sensed[1:3], [])[tick // 4 % 5]
    mu = (0.7, 0.0, 0.05, 20.0, 0.7)[tick // 8 % 5]
    there = [msgspec.structs.replace(foot, mu=mu, dist=1e-4 * (tick % 3 - 1)) for foot in pair]
    vel = (0.02 * rng.normal(size=robot.nv)).tobytes()
    extra = {"ref": wild} if tick % 10 == 9 else {"flags": Flags(estop=True)} if tick == 119 else {}
    client.exchange(StateMessage(q=q.tobytes(), vel=vel, t_robot=(tick + 1) * 1_000_000, contacts=there, **extra))

# a demand whose rounding errors no certificate lets pass: all rescuers are asked, and the last forces taken
state, v = State(q=q, v=np.zeros(robot.nv)), np.array(still)
beyond = JointReference(q=robot.joint_angles(q), v=v, a=1e14 * rng.normal(size=robot.na))
for n in (0, 1, 2, 4, 4):
    for mu in (0.7, np.inf, 0.0):
        contacts = controller.contacts(q, robot.contact_names[:n])
        contacts = msgspec.structs.replace(contacts, mu=np.full(n, mu))
        message = controller.step(state, contacts, Inputs(dt=1e-3, reference=beyond)).message
        assert n == 0 or "last forces" in message, message
new = compiled() - before
assert not new, sorted(d.py_func.__name__ for d, _ in new)
"""


@full
@pytest.mark.parametrize("server", ["quadruped", "quadruped-trot"])
def test_after_warm_up_no_state_compiles_or_loads_a_kernel(server):
    """Neither compiled nor read from the disk, for either is seen as a new signature. In a process of its own: here other tests
    have compiled everything."""
    subprocess.run([sys.executable, "-c", STATES, server], check=True)


@pytest.mark.bench
def test_fresh_servers_answer_a_first_state_with_contacts_within_5_ms(tmp_path):
    """Run with `-m bench -s`: it prints what each of them took for its first states."""
    robot, q = load_robot("quadruped")
    there = contacts_from_geometry(robot, q, Flat(), margin=0.01)
    feet = [
        Contact(frame=key, p=there.points[i].tobytes(), n=there.normals[i].tobytes(), dist=0.0)
        for i, key in enumerate(there.keys)
    ]
    firsts = []
    for start in range(20):
        settings = load("server", "quadruped", ServerSettings)
        settings = msgspec.structs.replace(settings, endpoint=f"ipc://{tmp_path}/{start}")
        with (
            ServerProcess(settings) as server,
            RobotClient(server.endpoint, hello_for(robot, 1e-3), deadline_ms=1000) as client,
        ):
            client.hello()
            spent = []
            for _ in range(5):
                begin = time.perf_counter()
                state = StateMessage(
                    q=q.tobytes(), vel=np.zeros(robot.nv).tobytes(), t_robot=time.monotonic_ns(), contacts=feet
                )
                assert isinstance(client.exchange(state), TorqueMessage), client.error
                spent.append(1e3 * (time.perf_counter() - begin))
        firsts.append(spent[0])
        print(f"server {start}: first states took {', '.join(f'{ms:.2f}' for ms in spent)} ms")
    print(f"first state: median {np.median(firsts):.2f} ms, longest {max(firsts):.2f} ms")
    assert max(firsts) < 5.0


@full
def test_the_second_process_reads_a_snapshot(caplog):
    """A snapshot with infinite settings; the process compiles or loads everything and ends without an error."""
    precompilation = Precompilation(load_controller("quadruped-trot"))
    precompilation.start_helper()
    assert precompilation.helper.wait(600.0) == 0
    assert not caplog.records
