"""A planner commands tasks over the wire at 50 Hz; go2 realises them in MuJoCo at 1 kHz."""

import mujoco
import numpy as np
from fast import full
from task_runs import circle, follow, target

from controllers.build import load_controller
from idyn.tasks import ForceTask, FrameTask
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.mujoco.robot_model import Coordinates, build_model
from transport.log.provenance import attachments, metadata
from transport.log.recorder import Recorder
from transport.log.replay import replay
from transport.protocol.codec import decode, encode
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello
from transport.protocol.messages.state import ExternalForce, Stance, StateMessage
from transport.protocol.task_input import write_tasks
from transport.robot.conversation import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

DT, MS = 1e-3, 1_000_000

PERIOD, VALID = 20, 0.05
"""Period of the commands [ticks], and their validity [s]."""


class Planned:
    """go2 in MuJoCo, its standing controller behind a service, and a planner."""

    def __init__(self, log=None, **changes):
        """changes: of the controller's settings"""
        self.now, controller = 0, load_controller("go2", changes)
        settings = ServerSettings(controller="go2", planners=("mpc",))
        self.robot, self.stance = controller.robot, controller.stance
        if log is not None:
            log = Recorder(log, attachments(controller.snapshot(), settings), metadata(self.robot, None))
        self.recorder, self.service = log, Service(controller, settings, clock=lambda: self.now, recorder=log)
        self.client = Loopback(self.service, hello_for(self.robot, DT, kind="sim"), clock=lambda: self.now)
        self.client.hello()
        self.session = self.ask(PlanHello(name="mpc")).session
        self.model = build_model(self.robot, MujocoSettings(timestep=DT))
        self.model.opt.timestep = DT
        self.data, self.coordinates = mujoco.MjData(self.model), Coordinates(self.robot, self.model)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(self.stance, np.zeros(self.robot.nv))
        self.q, self.t, self.replies = self.stance, 0.0, []

    def ask(self, message):
        reply = decode(self.service.handle(b"planner", encode(message), self.now).reply)
        self.service.settle()
        return reply

    def run(self, seconds, tasks=None, modes=lambda t: None, **state):
        """Simulate. tasks(t), modes(t): the tasks and contact modes of a command, sent every `PERIOD` ticks; None: no commands
        state: further fields of the state messages"""
        for tick in range(round(seconds / DT)):
            self.now += MS
            self.t += DT
            if tasks is not None and tick % PERIOD == 0:
                asked = write_tasks(tasks(self.t))
                command = CommandMessage(session=self.session, valid_for=VALID, tasks=asked, modes=modes(self.t))
                assert isinstance(self.ask(command), CommandAck)
            self.q, v = self.coordinates.from_mujoco(self.data.qpos, self.data.qvel)
            reply = self.client.exchange(StateMessage(q=self.q.tobytes(), vel=v.tobytes(), t_robot=self.now, **state))
            assert reply is not None, self.client.error
            self.data.qfrc_applied[self.coordinates.dofs[self.robot.tree.a]] = np.frombuffer(reply.tau)
            mujoco.mj_step(self.model, self.data)
            self.replies.append((self.t, self.q[:3].copy(), reply))


def trunk(run, path, start, origin):
    """Tasks of a trunk whose origin follows a path that begins at time `start`, with constant attitude."""
    return lambda t: [follow("root_joint", path, t - start, origin, rotation=np.eye(3))]


@full
def test_the_trunk_follows_a_circle_of_commands_and_stands_when_they_end():
    run = Planned()
    run.run(1.0)
    origin, path = run.q[:3].copy(), circle(0.03, 0.5, (0, 1))
    run.run(4.0, trunk(run, path, 1.0, origin))
    late = [(t, x, reply) for t, x, reply in run.replies if t > 3.0]
    errors = [np.linalg.norm(x - origin - path(t - 1.0)) for t, x, _ in late]
    torques = np.array([np.frombuffer(reply.tau) for _, _, reply in late])
    assert 1e3 * np.sqrt(np.mean(np.square(errors))) < 0.3  # mm
    assert np.abs(np.diff(torques, axis=0)).mean() / DT < 10.0  # N·m/s
    assert all(reply.message == "" and reply.status == "ok" for _, _, reply in late)
    assert {(task.name, task.met) for _, _, reply in late for task in reply.tasks} == {("root_joint", True)}
    end = run.t
    run.run(VALID + 1.0)
    last, _, _ = target(path, end - 1.0 + VALID)
    assert "expired" in run.replies[-1][2].message
    assert np.linalg.norm(run.replies[-1][1] - origin - last) < 5e-3
    before, after = run.replies[-100][1], run.replies[-1][1]
    assert np.linalg.norm(after - before) < 1e-4


@full
def test_positions_without_velocity_are_joined_smoothly():
    """Without transitions between the commands, the torque rate is 7.1 N·m/s, and the trunk 18 mm behind the circle."""
    run = Planned()
    run.run(1.0)
    origin, path = run.q[:3].copy(), circle(0.03, 0.5, (0, 1))
    run.run(3.0, lambda t: [FrameTask(frame="root_joint", position=origin + path(t - 1.0), rotation=np.eye(3))])
    late = [(t, x, reply) for t, x, reply in run.replies if t > 2.0]
    torques = np.array([np.frombuffer(reply.tau) for _, _, reply in late])
    assert np.abs(np.diff(torques, axis=0)).mean() / DT < 4.0  # N·m/s
    errors = [np.linalg.norm(x - origin - path(t - 1.0)) for t, x, _ in late]
    assert 1e3 * np.sqrt(np.mean(np.square(errors))) < 8.0  # mm


@full
def test_a_foot_presses_as_commanded_and_an_impossible_task_is_reported():
    run = Planned()
    run.run(1.0)
    origin = run.q[:3].copy()
    still = trunk(run, lambda t: np.zeros(3), 0.0, origin)
    run.run(1.0, lambda t: [*still(t), ForceTask(contacts="FL_foot", normal=25.0)])
    forces = {each.frame: each.fn for each in run.replies[-1][2].contact_force}
    assert abs(forces["FL_foot"] - 25.0) < 0.01
    run.run(0.2, lambda t: [*still(t), ForceTask(contacts="FL_foot", normal=400.0, level=1)])
    task = {each.name: each for each in run.replies[-1][2].tasks}["force of FL_foot"]
    assert not task.met
    assert task.missing > 100.0
    assert run.replies[-1][2].status == "ok"


@full
def test_commanded_tasks_are_replayed_bit_for_bit(tmp_path):
    run = Planned(tmp_path / "log.mcap")
    run.run(0.3)
    run.run(0.7, trunk(run, circle(0.02, 1.0, (0, 2)), 0.3, run.q[:3].copy()))
    run.run(0.2)
    run.recorder.close()
    report = replay(tmp_path / "log.mcap")
    assert report.exact
    assert report.ticks == 1200


def test_a_known_external_force_is_carried_by_less_contact_force():
    """A force of 40 N lifts the base, in the world and in the states: the feet carry the rest, with and without tasks."""
    run = Planned()
    run.data.xfrc_applied[1, 2] = 40.0
    lift = ExternalForce(frame="root_joint", wrench=[0.0, 0.0, 40.0, 0.0, 0.0, 0.0])
    run.run(1.0, f_ext=lift)
    origin = run.q[:3].copy()
    for tasks in (None, trunk(run, lambda t: np.zeros(3), 0.0, origin)):
        run.run(0.5, tasks, f_ext=lift)
        reply = run.replies[-1][2]
        assert abs(sum(each.fn for each in reply.contact_force) - (run.robot.weight - 40.0)) < 0.5
        assert abs(run.q[2] - origin[2]) < 1e-4
        assert reply.status == "ok"


def test_a_schedule_says_which_feet_stand():
    run = Planned(contact={"source": "planner"})
    run.run(0.5)
    lifted = [Stance(frame="FL_foot", stance=False, time_to_switch=0.5)]
    run.run(0.003, schedule=lifted)
    assert {each.frame for each in run.replies[-1][2].contact_force if each.fn > 0.0} <= {"FR_foot", "RL_foot", "RR_foot"}
    run.run(0.003)
    assert "FL_foot" in {each.frame for each in run.replies[-1][2].contact_force}
