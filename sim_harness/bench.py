"""Benchmarks: whole predictions against the number of contacts, and the served round trip against a bare echo.

Everything that is compared is measured in turns, block by block, so that a noisy machine disturbs all alike.
"""

import gc
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import numpy as np
import zmq

from controllers.config import load
from controllers.kinematics import angles_for_base_shift, contact_jacobian, contact_places
from controllers.robots import load_robot
from idyn.consistency import project
from idyn.contacts import contacts_from_points
from idyn.dynamics import evaluate
from idyn.ground import Ground
from idyn.inverse_dynamics import predict
from idyn.laws import make_law
from idyn.problem import Options
from idyn.robot import Robot
from idyn.types import Array, Consistency, ContactSet, Guess, Record, Selection, State
from sim_harness.experiment import Progress
from sim_harness.pacing import Pacer
from sim_harness.server_process import ServerProcess
from transport.protocol.codec import encode
from transport.protocol.messages.state import StateMessage
from transport.protocol.messages.torque import TorqueMessage
from transport.protocol.sizes import HIGH_WATER
from transport.realtime import off_core, on_core, spare_core, steady
from transport.robot.conversation import Conversation, hello_for
from transport.server.settings import ServerSettings

DT = 1e-3
SAMPLES = 64
"""States of one sway that a block goes through, each warm-started by the one before."""

AMPLITUDE = 0.01
"""Of the sway [m]."""

BLOCK_TICKS = 500
"""Paced ticks before the other server has its turn."""


class Case(Record, frozen=True):
    """What is measured: a law, its selection, and whether demands come consistent or have to be made so (`HOLD`)."""

    law: str
    selection: Selection = Selection.OFF
    consistency: Consistency = Consistency.PROJECT


CASES = {
    "no-slip": Case(law="no-slip"),
    "coulomb": Case(law="coulomb"),
    "exact-cone": Case(law="exact-cone"),
    "convex": Case(law="convex", selection=Selection.TORQUE),
    "contact-free": Case(law="contact-free"),
    "convex, stage I": Case(law="convex"),
    "no-slip, selected": Case(law="no-slip", selection=Selection.TORQUE),
    "coulomb, selected": Case(law="coulomb", selection=Selection.TORQUE),
    "exact-cone, selected": Case(law="exact-cone", selection=Selection.TORQUE),
    "no-slip, selected, hold": Case(law="no-slip", selection=Selection.TORQUE, consistency=Consistency.HOLD),
    "coulomb, selected, hold": Case(law="coulomb", selection=Selection.TORQUE, consistency=Consistency.HOLD),
    "convex, selected, hold": Case(law="convex", selection=Selection.TORQUE, consistency=Consistency.HOLD),
}
"""`convex` is the paper's two stages. `hold` is what the shipped controllers use."""


class Sample(Record, frozen=True):
    """One tick of the workload; `wanted` is the raw demand, `consistent` the nearest one that holds the feet (na)."""

    state: State
    contacts: ContactSet
    wanted: Array
    consistent: Array


def workload(robot: Robot, stance: Array, n: int) -> list[Sample]:
    """A 1 Hz sway of the base over the first n contact places."""

    def pose(t: float) -> Array:
        shift = np.array([0.0, AMPLITUDE * np.sin(2 * np.pi * t), 0.0])
        q = robot.with_joint_angles(stance, angles_for_base_shift(robot, stance, shift))
        q[:3] += shift
        return q

    samples = []
    for t in np.arange(SAMPLES) / SAMPLES:
        before, q, after = pose(t - DT), pose(t), pose(t + DT)
        into, out_of = robot.difference(before, q) / DT, robot.difference(q, after) / DT
        contacts = _contacts(robot, q, n)
        v = (into + out_of) / 2
        J = contact_jacobian(robot, robot.terms(q, v).axes, contacts.points)
        v -= np.linalg.lstsq(J, J @ v, rcond=None)[0]  # the feet are spheres: they roll, the reference keeps their centres
        state = State(q=q, v=v)
        wanted = ((out_of - into) / DT)[robot.tree.a]
        sample = Sample(state=state, contacts=contacts, wanted=wanted, consistent=wanted)
        samples.append(msgspec.structs.replace(sample, consistent=consistent(robot, sample, wanted)))
    return samples


def consistent(robot: Robot, sample: Sample, demand: Array) -> Array:
    """The nearest demand that holds the feet of a sample (na)."""
    dynamics = evaluate(robot, sample.state, sample.contacts, dt=DT, ground=Ground())
    nearest, _, _ = project(dynamics, demand, np.ones(len(sample.contacts)), np.inf, closed=True)
    return nearest


def _contacts(robot: Robot, q: Array, n: int) -> ContactSet:
    """The first n contact places, touching."""
    points = contact_places(robot, q)[:n].copy()
    points[:, 2] -= robot.spheres.radii[:n]
    normals = np.tile([0.0, 0.0, 1.0], (n, 1))
    return contacts_from_points(robot, robot.spheres.keys[:n], points, normals, robot.spheres.mu[:n], np.zeros(n))


def bench_laws(robot_name: str, repeat: int, progress: Progress) -> dict[str, Any]:
    """Medians and p99 of whole predictions [µs] for 1…all contact places, and the unit, measured in turns."""
    robot, stance = load_robot(robot_name)
    counts = range(1, len(robot.spheres.keys) + 1)
    loads = {n: workload(robot, stance, n) for n in counts}
    times: dict[tuple[str, int], list[int]] = {(name, n): [] for name in CASES for n in counts}
    unit: list[int] = []
    for block in range(1 + -(-repeat // SAMPLES)):
        with without_gc():
            for (name, n), spent in times.items():
                measured = _time_predictions(robot, loads[n], CASES[name])
                yardstick = _time_unit(robot, loads[n])
                if block > 0:  # the first one compiles and warms up
                    spent.extend(measured)
                    unit.extend(yardstick)
        progress("laws", 1)
    figures = {name: {str(n): _percentiles(times[name, n]) for n in counts} for name in CASES}
    return {"unit_us": float(np.median(unit)) * 1e-3, "robot": robot.name, "laws": figures}


def _time_predictions(robot: Robot, samples: list[Sample], case: Case) -> list[int]:
    law = make_law(case.law)
    options = Options(selection=case.selection, consistency=case.consistency)
    raw = case.consistency is Consistency.HOLD
    guess: Guess | None = None
    spent = []
    for sample in samples:
        demand = sample.wanted if raw else sample.consistent
        begin = time.perf_counter_ns()
        answer = predict(robot, sample.state, sample.contacts, demand, law=law, dt=DT, options=options, guess=guess)
        spent.append(time.perf_counter_ns() - begin)
        guess = answer.guess
    return spent[1:]


def _time_unit(robot: Robot, samples: list[Sample]) -> list[int]:
    spent = []
    for sample in samples:
        begin = time.perf_counter_ns()
        robot.compute_all_terms(sample.state.q, sample.state.v)
        spent.append(time.perf_counter_ns() - begin)
    return spent


class without_gc:
    """Garbage is collected before, not meanwhile."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *exception: object) -> None:
        gc.enable()


def _percentiles(spent_ns: list[int]) -> dict[str, float]:
    return {
        "median_us": float(np.median(spent_ns)) * 1e-3,
        "p99_us": float(np.percentile(spent_ns, 99)) * 1e-3,
    }


def laws_table(result: dict[str, Any]) -> list[list[str]]:
    """Medians in units, and p99 in µs, against the number of contacts."""
    unit = result["unit_us"]
    counts = list(next(iter(result["laws"].values())))
    rows = [[f"unit {unit:.2f} µs", *(f"{n} contacts" for n in counts), "p99 µs"]]
    for name, figures in result["laws"].items():
        cells = [f"{figures[n]['median_us'] / unit:.2f}" for n in counts]
        rows.append([name, *cells, f"{figures[counts[-1]]['p99_us']:.1f}"])
    return rows


def bench_server(ticks: int, progress: Progress, name: str = "quadruped") -> dict[str, Any]:
    """Round trips of a served quadruped at 1 kHz over ipc, and of a bare echo of the same bytes, in turns.

    Timed from handing a state's bytes to the socket to having the reply's; both over sockets of the same kind. Where the
    machine has two cores, server and echo have one for their loops, and this process keeps off it.
    """
    core = spare_core()
    with tempfile.TemporaryDirectory(prefix="idyn-") as folder:
        settings = load("server", name, ServerSettings)
        settings = msgspec.structs.replace(settings, endpoint=f"ipc://{folder}/server", core=core)
        robot, stance = load_robot("quadruped")
        samples = workload(robot, stance, len(robot.spheres.keys))
        states = [StateMessage(q=s.state.q.tobytes(), vel=s.state.v.tobytes(), t_robot=0) for s in samples]
        with (
            ServerProcess(settings) as server,
            Echo(f"ipc://{folder}/echo", core) as echo,
            Wire(server.endpoint) as to_server,
            Wire(echo.address) as to_echo,
            off_core(core),
            steady(),
        ):
            conversation = Conversation()
            conversation.begin(to_server.exchange(encode(hello_for(robot, DT, kind="sim"))))
            to_echo.exchange(b"warm")
            served, echoed = _in_turns(ticks, conversation, to_server, to_echo, states, progress)
    answered = served[np.isfinite(served)]
    return {
        "echo_p50_us": float(np.median(echoed)),
        "p50_us": float(np.median(answered)),
        "p99_us": float(np.percentile(answered, 99)),
        "misses": int(np.sum(~(served <= DT * 1e6))),
        "ticks": ticks,
        "echo_p99_us": float(np.percentile(echoed, 99)),
    }


def _in_turns(
    ticks: int,
    conversation: Conversation,
    to_server: "Wire",
    to_echo: "Wire",
    states: list[StateMessage],
    progress: Progress,
) -> tuple[Array, Array]:
    """Round trips of both [µs] (ticks); NaN where the reply was no torque."""
    served, echoed = np.full(ticks, np.nan), np.full(ticks, np.nan)
    pacer = Pacer(DT)
    pacer.wait()
    for first in range(0, ticks, BLOCK_TICKS):
        block = range(first, min(first + BLOCK_TICKS, ticks))
        for tick in block:
            state = msgspec.structs.replace(states[(tick // 16) % len(states)], t_robot=(tick + 1) * 1_000_000)
            data = conversation.ask(state, time.monotonic_ns())
            begin = time.perf_counter_ns()
            reply = to_server.exchange(data)
            spent = time.perf_counter_ns() - begin
            if isinstance(conversation.hear(reply, time.monotonic_ns()), TorqueMessage):
                served[tick] = spent * 1e-3
            pacer.wait()
        for tick in block:
            data = encode(msgspec.structs.replace(states[(tick // 16) % len(states)], t_robot=(tick + 1) * 1_000_000))
            begin = time.perf_counter_ns()
            to_echo.exchange(data)
            echoed[tick] = (time.perf_counter_ns() - begin) * 1e-3
            pacer.wait()
        progress("server and echo", 2 * len(block))
    return served, echoed


class Wire:
    """A bare DEALER socket."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        self._socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        self._socket.connect(address)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def exchange(self, data: bytes) -> bytes:
        """Send and wait for what comes back."""
        self._socket.send(data)
        return self._socket.recv()


class Echo:
    """A process that sends every message back."""

    def __init__(self, address: str, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.address = address
        self._news, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_echo, args=(address, core, theirs), daemon=True)

    def __enter__(self) -> "Echo":
        self._process.start()
        self._news.recv()
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.join()


def _echo(address: str, core: int | None, news: Connection) -> None:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind(address)
    news.send("ready")
    with on_core(core), steady():
        while True:
            identity, data = socket.recv_multipart()
            socket.send_multipart([identity, data])


def server_table(result: dict[str, Any]) -> list[list[str]]:
    """The served round trip beside the echo's."""
    ratio = result["p50_us"] / result["echo_p50_us"]
    return [
        ["1 kHz over ipc", "p50 µs", "p99 µs", "over 1 ms"],
        ["bare echo", f"{result['echo_p50_us']:.0f}", f"{result['echo_p99_us']:.0f}", ""],
        ["torque server", f"{result['p50_us']:.0f}", f"{result['p99_us']:.0f}", f"{result['misses']} of {result['ticks']}"],
        ["ratio", f"{ratio:.2f}", "", ""],
    ]
