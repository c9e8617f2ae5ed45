"""The simulated robot's side: its loop and clock, traces, pauses, servers that are killed or of another controller."""

import json
from collections import deque
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from disk import written
from fast import full
from known_ends import STAND
from stands import Stand, robot_world

from controllers.command import Command, Mode, Reference
from controllers.robot.damping import DriveGains
from idyn import Flat, InputError, contacts_from_geometry, hello_for, load_robot
from sim_harness.commands.main import main
from sim_harness.measure.fall import Posture
from sim_harness.measure.trace import TraceWriter
from sim_harness.robot import robot_side
from sim_harness.robot.robot_side import Pacer, RobotSide
from sim_harness.run.experiment import other_controller, run_in_process, served_controller
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.run.server_process import ServerProcess
from sim_harness.studies.pauses import Outcome, study, table, walks
from sim_harness.studies.study import report_of
from transport.protocol.messages.base import Code, ErrorMessage
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT, MS = 1e-3, 1_000_000


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
        zeros, mode = np.zeros(12), Mode.FAULT if len(self.seen) == self.faults_at else Mode.OK
        torques = {"tau": tau, "tau_ff": tau, "tau_fb": zeros, "limited_by": np.zeros(12, dtype=np.int64)}
        reference, drive = Reference(q=self.angles, v=zeros, a=zeros), DriveGains(kp=np.full(12, 20.0), kd=np.full(12, 0.1))
        return Command(**torques, mode=mode, prediction=None, reference=reference, drive=drive)

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


def side(wrap=lambda client: client):
    world = robot_world()
    controller = Holding(Stand(world).tau)
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


def test_the_robot_stands_in_lock_step_and_such_runs_are_identical():
    robot_side, controller = side()
    trace = robot_side.run(0.3)
    assert (len(trace), trace.share("ok")) == (300, 1)
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
    first, second = (side()[0].run(0.1) for _ in range(2))
    assert (first.q.tobytes(), first.tau.tobytes()) == (second.q.tobytes(), second.tau.tobytes())


def test_lost_replies_trigger_the_failsafe_and_the_world_goes_on():
    """Otherwise a robot that falls after its stop would not be seen to fall."""
    robot_side, _ = side(lambda client: Faulty(client, lost=50))
    trace = robot_side.run(0.3)
    modes = [trace.modes[i] for i in trace.mode]
    first = {mode: modes.index(mode) for mode in trace.modes}
    assert list(first) == ["ok", "failsafe:follow", "failsafe:rest", "failsafe:stopped"]
    assert (first["failsafe:follow"], first["failsafe:rest"], first["failsafe:stopped"]) == (50, 49 + 20, 49 + 100)
    assert robot_side.stopped
    assert np.isnan(trace.round_trip[50:]).all()
    robot_side, _ = side(lambda client: Faulty(client, lost=50))
    trace = robot_side.run(0.3, (), Posture(robot_side.world.robot, Flat(), robot_side.world.q))
    assert (trace.modes[trace.mode[-1]], len(trace)) == ("failsafe:stopped", 300)


def test_a_stopped_robot_stands_until_reset():
    """Replies are missing for 200 ms: the server also reports an outage, and the robot keeps standing."""
    robot_side, controller = side(lambda client: Faulty(client, lost=50, back=250))
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
    robot_side, _ = side(lambda client: Faulty(client, lost=50, back=250))
    robot_side.run(0.3)
    robot_side.world.v = np.full(18, 20.0)
    assert not robot_side.reset()
    assert robot_side.stopped


def test_after_a_fault_the_robot_damps_with_current_speeds():
    robot_side, controller = side()
    controller.faults_at = 30
    trace = robot_side.run(0.1)
    damped = np.array([trace.modes[mode] == "failsafe:damping" for mode in trace.mode])
    np.testing.assert_array_equal(damped, np.arange(100) >= 29)
    np.testing.assert_allclose(trace.tau[29:], np.clip(-0.2 * trace.v[29:, 6:], -7.3, 7.3), atol=1e-12)
    assert robot_side.refused == {"latched_fault": 70}


def test_refusals_are_reported_once_and_an_invalid_reply_counts_as_missing(caplog):
    error = ErrorMessage(code=Code.NON_FINITE, message="expected finite numbers", recoverable=True)
    robot_side, _ = side(lambda client: Faulty(client, lost=10, back=15, error=error))
    robot_side.run(0.05)
    assert robot_side.refused == {"non_finite": 5}
    assert caplog.text.count("expected finite numbers") == 1

    class Mangled(Faulty):
        def exchange(self, state):
            reply = super().exchange(state)
            return msgspec.structs.replace(reply, tau=reply.tau[:-8]) if self.count == 10 else reply

    robot_side, _ = side(lambda client: Mangled(client, lost=10**9))
    trace = robot_side.run(0.02)
    assert robot_side.refused == {"wrong_length": 1}
    assert (trace.modes[trace.mode[9]], trace.share("ok")) == ("failsafe:follow", pytest.approx(19 / 20))


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only during sleeps, which end 20 µs late, or when `now` is set."""
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
def test_a_paced_world_follows_the_clock(clock):
    """Every 20th reply takes 3.4 ms: the world moves on meanwhile, and no tick is repeated."""
    robot_side, _ = side(slow(clock, 20, 3_400_000))
    start = clock.now
    trace = robot_side.run_paced(0.2)
    assert len(trace) == 200
    assert robot_side.world.t == pytest.approx((clock.now - start) * 1e-9, abs=1.1e-3)
    assert trace.share("failsafe:follow") == pytest.approx(np.isnan(trace.round_trip).mean())
    assert 0.05 < trace.share("failsafe:follow") < 0.15
    np.testing.assert_allclose(trace.q[-1], trace.q[0], atol=1e-6)


def test_a_waiting_world_is_slow_and_misses_no_reply(clock):
    robot_side, _ = side(slow(clock, 20, 3_400_000))
    trace = robot_side.run_paced(0.2, waits=True)
    assert trace.share("ok") == 1
    np.testing.assert_allclose(trace.t, np.arange(200) * DT, atol=1e-12)
    late = 10 * 2  # whole periods lost to every 20th reply
    assert trace.wall[-1] - trace.wall[0] == pytest.approx((199 + late) * DT, abs=2e-3)


def test_a_pause_of_the_machine_is_not_a_fault(clock):
    """All pauses for 469 ms in an exchange: the world counts no more waiting than the client's limit; the robot goes on."""
    robot_side, _ = side(slow(clock, 100, 469_000_000))
    trace = robot_side.run_paced(0.15)
    assert (len(trace), trace.share("failsafe:follow")) == (150, pytest.approx(5 / 150))
    assert trace.share("ok") == pytest.approx(145 / 150)
    assert not robot_side.stopped
    assert np.diff(trace.wall).max() == pytest.approx(0.469, abs=2e-3)


def test_a_dead_server_ends_the_run_within_the_waiting_time(clock):
    """Each reply is awaited for the client's limit, and the world moves on by as much: the run ends in time, stopped."""

    class Dead(Faulty):
        deadline = 0.25

        def exchange(self, state):
            reply = super().exchange(state)
            clock.now += 250_000_000 if reply is None else 200_000
            return reply

    robot_side, _ = side(lambda client: Dead(client, lost=100))
    start = clock.now
    trace = robot_side.run_paced(1.0, waits=True)
    assert len(trace) == 1000
    assert (clock.now - start) * 1e-9 == pytest.approx(1.0, abs=0.26)
    assert trace.modes[trace.mode[-1]] == "failsafe:stopped"


def test_lateness_does_not_add_up_and_missed_deadlines_are_skipped_without_a_burst(clock):
    """A tick that is late within its period is not skipped."""
    pacer = Pacer(1e-3)
    pacer.wait()
    for k in range(1, 101):
        assert pacer.wait() == 20_000
        assert clock.now == 7 * MS + k * MS + 20_000
    clock.now += round(1.5 * MS)
    assert pacer.wait() == round(0.5 * MS) + 20_000
    pacer.wait()
    assert (pacer.skipped, clock.now) == (0, 109 * MS + 20_000)
    clock.now += round(3.4 * MS)
    late = pacer.wait()
    assert pacer.skipped == 2
    assert 0 <= late < MS
    pacer.wait()
    assert clock.now == 113 * MS + 20_000


def test_a_trace_keeps_the_filled_rows_only(tmp_path):
    robot, q = load_robot("quadruped")
    writer = TraceWriter(robot, 10)
    for k in range(3):
        writer.state(k * 1e-3, q, np.zeros(18), 9.0 + k)
        writer.predicted("RF_FOOT", (11.0, 1.0, -1.0))
        writer.predicted("BODY0", (1.0, 0.0, 0.0))
        writer.command(np.full(12, k), "ok" if k < 2 else "hold", np.nan)
        writer.simulated(("RF_FOOT", "LH_FOOT"), np.array([[12.0, 0, 0], [3.0, 0, 0]]), 0)
    trace = writer.trace()
    assert (len(trace), trace.share("ok"), trace.share("damping")) == (3, pytest.approx(2 / 3), 0)
    np.testing.assert_array_equal(trace.predicted[0, 1], [11, 1, -1])
    assert np.isnan(trace.predicted[0, [0, 2, 3]]).all()
    np.testing.assert_array_equal(trace.simulated[2, :, 0], [np.nan, 12, 3, np.nan])
    trace.save_npz(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as saved:
        np.testing.assert_array_equal(saved["tau"], trace.tau)
        assert (saved["places"].tolist(), saved["modes"].tolist()) == (list(trace.places), ["ok", "hold"])


@full
def test_pauses_are_described_in_the_report():
    trace = run_in_process(load_plan("stand", 0.2), "coulomb", lambda *_: None).trace
    outcomes = [
        Outcome(
            who=who, milliseconds=150, law="coulomb", ticks={"ok": 90, "failsafe:rest": 110}, longest_tick=0.15,
            stopped=stopped, reset=True if stopped else None, upright=True, walked=0.4, traces=(trace,),
        )
        for who, stopped in (("server", True), ("robot", False))
    ]  # fmt: skip
    found = {"pauses": dict(enumerate(outcomes))}
    html = report_of(study("demo", "coulomb", [150]), found).html
    for outcome in outcomes:
        assert outcome.words.replace("'", "&#x27;") in html
    assert "reset, continued to walk" in html
    assert "its world stopped with it" in html
    assert walks(found).startswith(b"\x89PNG")
    assert [row[0] for row in table(found)] == ["stopped", "server", "robot"]


@pytest.fixture
def plan(tmp_path):
    return load_plan(str(written(tmp_path / "experiment.toml", STAND.replace("2.0", "0.6").replace('"penalty"', '"lcp"'))))


def test_the_controller_that_is_asked_for_is_no_other_one(plan):
    asked = with_controller(plan, {"law": "coulomb"}).controller
    assert other_controller(plan, asked) == ""
    assert other_controller(plan, served_controller(msgspec.to_builtins(asked))) == ""
    renamed = msgspec.structs.replace(asked, robot="/somewhere/quadruped.toml")
    assert other_controller(plan, renamed) == ""  # the server compares the models themselves
    settings = msgspec.structs.replace(plan.settings, laws=("no-slip", "cone"))
    both = msgspec.structs.replace(plan, settings=settings)
    assert other_controller(both, with_controller(plan, {"law": "cone"}).controller) == ""
    assert "law.kind = 'sap' instead of 'no-slip'" in other_controller(both, with_controller(plan, {"law": "sap"}).controller)


def test_each_setting_that_differs_is_named_with_both_values(plan):
    other = with_controller(plan, {"law": "cone", "selection": "torque", "feedback": {"kp": 1.5}}).controller
    text = other_controller(plan, other)
    assert "another controller than the experiment asks for" in text
    assert "law.kind = 'cone' instead of 'coulomb'" in text
    assert "selection = 'torque' instead of 'force'" in text
    assert "feedback.kp = 1.5 instead of" in text
    gait = with_controller(load_plan("trot-quadruped"), {"law": "coulomb"}).controller
    assert "reference.kind = 'gait' instead of 'hold'" in other_controller(plan, gait)
    assert "period" not in other_controller(plan, gait)  # the settings of another kind are not compared
    grips = msgspec.structs.replace(plan.controller, grip=load_plan("grasp").controller.grip)
    assert "grip = 'spring' instead of None" in other_controller(plan, grips)


@full
def test_a_run_with_a_server_says_what_it_serves_and_is_judged_by_that(plan, tmp_path, capsys):
    """The server sways the robot by a law that keeps it still; the experiment asks it to stand."""
    experiment, figures = tmp_path / "experiment.toml", tmp_path / "figures.json"
    still = with_controller(load_plan("push"), {"law": "convex", "reference": {"start": 0.0}})
    server = msgspec.structs.replace(still.server, law="convex", endpoint=f"ipc://{tmp_path}/server")
    with ServerProcess(server, still.controller) as process:
        code = main(["simulate", str(experiment), "--connect", process.endpoint, "--json", str(figures)])
        out = capsys.readouterr().out
        (summary,) = json.loads(figures.read_text())
        assert (summary["verdict"]["ending"], code) == ("never moved", 1)
        assert "law.kind = 'convex' instead of 'coulomb'" in out
        assert "reference.kind = 'sway' instead of 'hold'" in out
        arm = written(tmp_path / "arm.toml", 'server = "arm"\nlaws = ["coulomb"]\nduration = 0.1\n')
        assert main(["simulate", str(arm), "--connect", process.endpoint]) == 2
        assert "refused the hello (model_mismatch): model.urdf_sha256" in capsys.readouterr().err
