"""The loop between world and service: in lock-step, paced, and with missing replies."""

from collections import deque
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from controllers.command import Command, Mode, Reference
from controllers.drive import DriveGains
from controllers.robot.load import load_robot
from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import InputError
from sim_harness.measure.fall import Posture
from sim_harness.robot import robot_side
from sim_harness.robot.robot_side import RobotSide
from transport.protocol.messages.error import Code, ErrorMessage
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT = 1e-3


class Holding:
    """A controller that holds a stance with a given torque and a joint PD, and predicts nothing."""

    realises_tasks = False

    def __init__(self, tau):
        self.robot, stance = load_robot("quadruped")
        self.tau, self.angles = tau, self.robot.joint_angles(stance)
        self.seen = deque(maxlen=1000)
        self.faults_at = 0

    def contacts(self, q, touching=None):
        return contacts_from_geometry(self.robot, q, Flat(), margin=0.01)

    def answer(self, state, contacts, inputs):
        self.seen.append((len(contacts), inputs.dt, inputs.tau_applied))
        tau = self.tau - 20 * (self.robot.joint_angles(state.q) - self.angles) - 0.1 * state.v[self.robot.tree.a]
        zeros = np.zeros(12)
        return Command(
            tau=tau,
            tau_ff=tau,
            tau_fb=zeros,
            limited_by=np.zeros(12, dtype=np.int64),
            mode=Mode.FAULT if len(self.seen) == self.faults_at else Mode.OK,
            prediction=None,
            reference=Reference(q=self.angles, v=zeros, a=zeros),
            drive=DriveGains(kp=np.full(12, 20.0), kd=np.full(12, 0.1)),
        )

    def estimator(self):
        return None

    def check_steering(self, steering, tasks):
        raise InputError("velocity", "this controller has no gait")

    def settle(self):
        pass

    def reset(self):
        self.seen.clear()

    def snapshot(self):
        return {"urdf": self.robot.description.urdf, "settings": {}}


def side(make_world, make_stand, wrap=lambda client: client):
    world = make_world()
    controller = Holding(make_stand(world).tau)
    service = Service(controller, ServerSettings(controller="none"), clock=lambda: round(world.t * 1e9))
    client = Loopback(service, hello_for(world.robot, DT, kind="sim"), clock=lambda: round(world.t * 1e9))
    client.hello()
    return RobotSide(world, wrap(client), dt=DT, kd=0.2), controller


class Faulty:
    """A client whose replies get lost from the tick `lost` on, until the tick `back`."""

    deadline = 0.005

    def __init__(self, client, lost, back=10**9, error=None):
        self.client, self.lost, self.back, self.late = client, lost, back, error
        self.error, self.count = None, 0

    @property
    def session(self):
        return self.client.session

    def ask(self, message):
        return self.client.ask(message)

    def exchange(self, state):
        self.count += 1
        if self.lost < self.count <= self.back:
            self.error = self.late
            return None
        reply, self.error = self.client.exchange(state), self.client.error
        return reply


def test_the_robot_stands_in_lock_step(make_world, make_stand):
    robot_side, controller = side(make_world, make_stand)
    trace = robot_side.run(0.3)
    assert len(trace) == 300
    assert trace.share("ok") == 1
    np.testing.assert_allclose(trace.t, np.arange(300) * DT, atol=1e-12)
    np.testing.assert_allclose(trace.simulated[:, :, 0].sum(axis=1), 47.088, rtol=1e-6)
    assert np.isnan(trace.predicted).all()
    assert (trace.round_trip > 0).all()
    assert (trace.status == 0).all()
    n, dt, applied = controller.seen[-1]
    assert n == 4
    assert dt == pytest.approx(DT)
    np.testing.assert_array_equal(applied, trace.tau[-2])
    assert controller.seen[0][1:] == (0.0, None)


def test_lock_step_runs_are_identical(make_world, make_stand):
    first, second = (side(make_world, make_stand)[0].run(0.1) for _ in range(2))
    assert first.q.tobytes() == second.q.tobytes()
    assert first.tau.tobytes() == second.tau.tobytes()


def test_lost_replies_trigger_the_failsafe(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50))
    trace = robot_side.run(0.3)
    modes = [trace.modes[i] for i in trace.mode]
    first = {mode: modes.index(mode) for mode in trace.modes}
    assert list(first) == ["ok", "failsafe:follow", "failsafe:rest", "failsafe:stopped"]
    assert first["failsafe:follow"] == 50
    assert first["failsafe:rest"] == 49 + 20
    assert first["failsafe:stopped"] == 49 + 100
    assert robot_side.stopped
    assert np.isnan(trace.round_trip[50:]).all()


def test_the_world_goes_on_after_a_permanent_stop(make_world, make_stand):
    """Otherwise a robot that falls after its stop would not be seen to fall."""
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50))
    trace = robot_side.run(0.3, (), Posture(robot_side.world.robot, Flat(), robot_side.world.q))
    assert trace.modes[trace.mode[-1]] == "failsafe:stopped"
    assert len(trace) == 300


def test_a_stopped_robot_stands_until_reset(make_world, make_stand):
    """Replies are missing for 200 ms: the server also reports an outage, and the robot keeps standing."""
    robot_side, controller = side(make_world, make_stand, lambda client: Faulty(client, lost=50, back=250))
    trace = robot_side.run(0.6)
    assert trace.modes[trace.mode[-1]] == "failsafe:stopped"
    assert robot_side.refused == {"latched_fault": 350}
    assert np.abs(trace.v[-1]).max() < 1e-3
    np.testing.assert_allclose(trace.q[-1], trace.q[0], atol=0.08)
    assert robot_side.reset()
    assert not robot_side.stopped
    assert len(controller.seen) == 0
    again = robot_side.run(0.3)
    assert again.share("ok") == 1
    np.testing.assert_allclose(again.q[-1], trace.q[0], atol=1e-3)


def test_a_refused_reset_leaves_the_robot_stopped(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50, back=250))
    robot_side.run(0.3)
    robot_side.world.v = np.full(18, 20.0)
    assert not robot_side.reset()
    assert robot_side.stopped


def test_after_a_fault_the_robot_damps_with_current_speeds(make_world, make_stand):
    robot_side, controller = side(make_world, make_stand)
    controller.faults_at = 30
    trace = robot_side.run(0.1)
    damped = np.array([trace.modes[mode] == "failsafe:damping" for mode in trace.mode])
    np.testing.assert_array_equal(damped, np.arange(100) >= 29)
    np.testing.assert_allclose(trace.tau[29:], np.clip(-0.2 * trace.v[29:, 6:], -7.3, 7.3), atol=1e-12)
    assert robot_side.refused == {"latched_fault": 70}


def test_a_short_dropout_is_survived(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50, back=58))
    trace = robot_side.run(0.2)
    assert trace.modes[trace.mode[-1]] == "ok"
    assert trace.share("ok") == pytest.approx(1 - 8 / 200)
    assert abs(trace.q[-1, 2] - trace.q[0, 2]) < 1e-3


def test_refusals_are_counted_and_reported_once(make_world, make_stand, caplog):
    error = ErrorMessage(code=Code.NON_FINITE, message="expected finite numbers", recoverable=True)
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=10, back=15, error=error))
    robot_side.run(0.05)
    assert robot_side.refused == {"non_finite": 5}
    assert caplog.text.count("expected finite numbers") == 1


def test_an_invalid_reply_counts_as_missing(make_world, make_stand):
    class Mangled(Faulty):
        def exchange(self, state):
            reply = super().exchange(state)
            return msgspec.structs.replace(reply, tau=reply.tau[:-8]) if self.count == 10 else reply

    robot_side, _ = side(make_world, make_stand, lambda client: Mangled(client, lost=10**9))
    trace = robot_side.run(0.02)
    assert robot_side.refused == {"wrong_length": 1}
    assert trace.modes[trace.mode[9]] == "failsafe:follow"
    assert trace.share("ok") == pytest.approx(19 / 20)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only during sleeps or when `now` is set."""
    state = SimpleNamespace(now=7_000_000)

    def sleep(seconds):
        state.now += round(seconds * 1e9) + 20_000

    monkeypatch.setattr(robot_side, "time", SimpleNamespace(monotonic_ns=lambda: state.now, sleep=sleep))
    monkeypatch.setattr("sim_harness.robot.robot_side.perf_counter", lambda: state.now * 1e-9)
    return state


def slow(clock, every, ns):
    """Wraps a client: each reply takes 0.2 ms, every `every`-th `ns`."""

    class Slow(Faulty):
        def exchange(self, state):
            clock.now += ns if self.count % every == every - 1 else 200_000
            return super().exchange(state)

    return lambda client: Slow(client, lost=10**9)


@pytest.mark.full
def test_a_paced_world_follows_the_clock(make_world, make_stand, clock):
    """Every 20th reply takes 3.4 ms: the world moves on meanwhile, and no tick is repeated."""
    robot_side, _ = side(make_world, make_stand, slow(clock, 20, 3_400_000))
    start = clock.now
    trace = robot_side.run_paced(0.2)
    assert len(trace) == 200
    assert robot_side.world.t == pytest.approx((clock.now - start) * 1e-9, abs=1.1e-3)
    assert trace.share("failsafe:follow") == pytest.approx(np.isnan(trace.round_trip).mean())
    assert 0.05 < trace.share("failsafe:follow") < 0.15
    np.testing.assert_allclose(trace.q[-1], trace.q[0], atol=1e-6)


def test_a_waiting_world_is_slow_and_misses_no_reply(make_world, make_stand, clock):
    robot_side, _ = side(make_world, make_stand, slow(clock, 20, 3_400_000))
    trace = robot_side.run_paced(0.2, waits=True)
    assert trace.share("ok") == 1
    np.testing.assert_allclose(trace.t, np.arange(200) * DT, atol=1e-12)
    late = 10 * 2  # whole periods lost to every 20th reply
    assert trace.wall[-1] - trace.wall[0] == pytest.approx((199 + late) * DT, abs=2e-3)


def test_a_pause_of_the_machine_is_not_a_fault(make_world, make_stand, clock):
    """During an exchange everything pauses for 469 ms: the world counts no more waiting than the client's limit, and the robot
    does not stop."""
    robot_side, _ = side(make_world, make_stand, slow(clock, 100, 469_000_000))
    trace = robot_side.run_paced(0.15)
    assert len(trace) == 150
    assert trace.share("failsafe:follow") == pytest.approx(5 / 150)
    assert trace.share("ok") == pytest.approx(145 / 150)
    assert not robot_side.stopped
    assert np.diff(trace.wall).max() == pytest.approx(0.469, abs=2e-3)


def test_a_dead_server_ends_the_run_within_the_waiting_time(make_world, make_stand, clock):
    """Each reply is awaited for the client's limit, and the world moves on by as much: the run ends in time, stopped."""

    class Dead(Faulty):
        deadline = 0.25

        def exchange(self, state):
            reply = super().exchange(state)
            clock.now += 250_000_000 if reply is None else 200_000
            return reply

    robot_side, _ = side(make_world, make_stand, lambda client: Dead(client, lost=100))
    start = clock.now
    trace = robot_side.run_paced(1.0, waits=True)
    assert len(trace) == 1000
    assert (clock.now - start) * 1e-9 == pytest.approx(1.0, abs=0.26)
    assert trace.modes[trace.mode[-1]] == "failsafe:stopped"


def test_a_paced_world_that_waits_misses_no_reply(make_world, make_stand):
    """On a machine of any speed."""
    robot_side, _ = side(make_world, make_stand)
    trace = robot_side.run_paced(0.1, waits=True)
    assert len(trace) == 100
    assert trace.share("ok") == 1
