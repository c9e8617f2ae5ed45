"""The loop between world and service: in lock-step, paced, and with replies that do not come."""

from collections import deque
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from controllers.command import Command, Mode
from controllers.robots import load_robot
from idyn.contacts import contacts_from_geometry
from idyn.terrain import Flat
from sim_harness import pacing
from sim_harness.robot_side import RobotSide
from transport.conversation import hello_for
from transport.loopback import Loopback
from transport.messages import Code, ErrorMessage
from transport.service import Service
from transport.settings import ServerSettings

DT = 1e-3


class Holding:
    """A controller that holds a stance with a given torque and a joint PD, and predicts nothing."""

    def __init__(self, tau):
        self.robot, stance = load_robot("quadruped")
        self.limits = self.robot.limits
        self.tau, self.angles = tau, self.robot.joint_angles(stance)
        self.seen = deque(maxlen=1000)

    def contacts(self, q, touching=None):
        return contacts_from_geometry(self.robot, q, Flat(), margin=0.01)

    def step(self, state, contacts, inputs):
        self.seen.append((len(contacts), inputs.dt, inputs.tau_applied))
        tau = self.tau - 20 * (self.robot.joint_angles(state.q) - self.angles) - 0.1 * state.v[self.robot.a]
        zeros = np.zeros(12)
        return Command(
            tau=tau,
            tau_ff=tau,
            tau_fb=zeros,
            limited_by=np.zeros(12, dtype=np.int64),
            mode=Mode.OK,
            prediction=None,
        )

    def reset(self):
        self.seen.clear()

    def snapshot(self):
        return {"urdf": self.robot.urdf, "settings": {}}


def side(make_world, make_stand, wrap=lambda client: client):
    world = make_world()
    controller = Holding(make_stand(world).tau)
    service = Service(controller, ServerSettings(controller="none"), clock=lambda: round(world.t * 1e9))
    client = Loopback(service, hello_for(world.robot, DT, kind="sim"), clock=lambda: round(world.t * 1e9))
    client.hello()
    return RobotSide(world, wrap(client), dt=DT, kd=0.2), controller


class Faulty:
    """A client whose replies get lost from the tick `lost` on, until the tick `back`."""

    def __init__(self, client, lost, back=10**9, error=None):
        self.client, self.lost, self.back, self.late = client, lost, back, error
        self.error, self.count = None, 0

    def exchange(self, state):
        self.count += 1
        self.error = self.late if self.lost < self.count <= self.back else None
        return None if self.lost < self.count <= self.back else self.client.exchange(state)


def test_lock_step_stands(make_world, make_stand):
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


def test_lock_step_is_repeatable_to_the_bit(make_world, make_stand):
    first, second = (side(make_world, make_stand)[0].run(0.1) for _ in range(2))
    assert first.q.tobytes() == second.q.tobytes()
    assert first.tau.tobytes() == second.tau.tobytes()


def test_lost_replies_go_through_the_failsafe(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50))
    trace = robot_side.run(0.3)
    modes = [trace.modes[i] for i in trace.mode]
    first = {mode: modes.index(mode) for mode in trace.modes}
    assert list(first) == ["ok", "failsafe:ok", "failsafe:hold", "failsafe:damping", "failsafe:stopped"]
    assert first["failsafe:ok"] == 50
    assert first["failsafe:hold"] == 52
    assert first["failsafe:damping"] == 49 + 20
    assert first["failsafe:stopped"] == 49 + 100
    np.testing.assert_array_equal(trace.tau[50], trace.tau[49])
    assert np.isnan(trace.round_trip[50:]).all()


def test_a_short_gap_is_survived(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=50, back=58))
    trace = robot_side.run(0.2)
    assert trace.modes[trace.mode[-1]] == "ok"
    assert trace.share("ok") == pytest.approx(1 - 8 / 200)
    assert abs(trace.q[-1, 2] - trace.q[0, 2]) < 1e-3


def test_refusals_are_counted_and_said_once(make_world, make_stand, caplog):
    error = ErrorMessage(code=Code.NON_FINITE, message="expected finite numbers", recoverable=True)
    robot_side, _ = side(make_world, make_stand, lambda client: Faulty(client, lost=10, back=15, error=error))
    robot_side.run(0.05)
    assert robot_side.refused == {"non_finite": 5}
    assert caplog.text.count("expected finite numbers") == 1


def test_an_unusable_reply_counts_as_none(make_world, make_stand):
    class Mangled(Faulty):
        def exchange(self, state):
            reply = super().exchange(state)
            return msgspec.structs.replace(reply, tau=reply.tau[:-8]) if self.count == 10 else reply

    robot_side, _ = side(make_world, make_stand, lambda client: Mangled(client, lost=10**9))
    trace = robot_side.run(0.02)
    assert robot_side.refused == {"wrong_length": 1}
    assert trace.modes[trace.mode[9]] == "failsafe:ok"
    assert trace.share("ok") == pytest.approx(19 / 20)


def test_paced_the_world_keeps_the_time_of_the_clock(make_world, make_stand, monkeypatch):
    """Every 20th reply takes 3.4 ms: the world moves on meanwhile, and no tick is made up for."""
    clock = SimpleNamespace(now=7_000_000)

    def sleep(seconds):
        clock.now += round(seconds * 1e9) + 20_000

    monkeypatch.setattr(pacing, "time", SimpleNamespace(monotonic_ns=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr("sim_harness.robot_side.perf_counter", lambda: clock.now * 1e-9)

    class Slow(Faulty):
        def exchange(self, state):
            clock.now += 3_400_000 if self.count % 20 == 19 else 200_000
            return super().exchange(state)

    robot_side, _ = side(make_world, make_stand, lambda client: Slow(client, lost=10**9))
    start = clock.now
    trace = robot_side.run_paced(0.2)
    assert len(trace) == 200
    assert robot_side.world.t == pytest.approx((clock.now - start) * 1e-9, abs=1.1e-3)
    assert trace.share("failsafe:ok") == pytest.approx(np.isnan(trace.round_trip).mean())
    assert 0.05 < trace.share("failsafe:ok") < 0.15
    np.testing.assert_allclose(trace.q[-1], trace.q[0], atol=1e-6)


def test_paced_in_real_time(make_world, make_stand):
    robot_side, _ = side(make_world, make_stand)
    trace = robot_side.run_paced(0.1)
    assert len(trace) == 100
    assert trace.share("failsafe:stopped") == 0
