"""A planner commands the arms of humanoids that walk in MuJoCo, over the wire at 50 Hz. Hands are where MuJoCo says."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import full
from mujoco_robot import follow, ramp

from controllers.build import load_controller
from idyn.tasks import ComTask, ForceTask, FrameTask, PostureTask
from sim_harness.robot.lying import PerturbationSettings
from sim_harness.run.plan import build_plan, load_plan, simulated_robot
from transport.protocol.codec import decode, encode
from transport.protocol.messages.base import ErrorMessage
from transport.protocol.messages.command import CommandAck, CommandMessage, PlanHello
from transport.protocol.task_input import write_tasks
from transport.robot.client import hello_for
from transport.server.service import Service
from transport.server.settings import ServerSettings
from transport.startup.loopback import Loopback

HANDS = {"g1": "left_wrist_yaw_link", "talos": "arm_left_7_link"}
"""Links, which are MuJoCo's bodies in the world of the robot's own file."""

EVERY, VALID = 10, 0.1
"""Period of the commands [ticks], and their validity [s]."""

SPEED = 0.3


class Walk:
    """A humanoid in MuJoCo, its walking controller behind a service, and a planner, on the robot's clock.

    start: place of the hand [m] (3); stand: height of the base [m]; hand: places of the hand after each tick [m] (n, 3)
    modes: of all replies
    """

    def __init__(self, name, seed=0):
        """seed: of the displacement of the start"""
        shaken = PerturbationSettings(shift=0.003, speed=0.02)
        plan = build_plan(msgspec.structs.replace(load_plan(f"walk-{name}").settings, perturbation=shaken))
        controller = load_controller(f"{name}-walk")
        self.robot, self.dt, self.name = controller.robot, plan.controller.period, name
        self.service = Service(controller, ServerSettings(controller=f"{name}-walk", planners=("mpc",)))
        client = Loopback(self.service, hello_for(self.robot, self.dt, kind="sim"), clock=self.now)
        self.side = simulated_robot(plan, client, seed=seed)
        client.hello()
        self.world, self.hand, self.modes = self.side.world, [], set()
        self.scratch = mujoco.MjData(self.world.model)
        self.start, self.stand = self.place(), self.world.q[2]
        self.session, self.seq = self.ask(PlanHello(name="mpc")).session, 0

    def now(self):
        return 0 if not hasattr(self, "side") else round(self.side.world.t * 1e9)

    def ask(self, message):
        answer = decode(self.service.handle(b"planner", encode(message), self.now()).reply)
        self.service.settle()
        return answer

    def command(self, forward, tasks, **fields):
        self.seq += 1
        sent = {"session": self.session, "seq": self.seq, "valid_for": VALID, "velocity": [forward, 0.0, 0.0]}
        return self.ask(CommandMessage(**sent, tasks=write_tasks(tasks), **fields))

    def place(self):
        """Return where the hand is [m]."""
        self.scratch.qpos[:] = self.world.data.qpos
        mujoco.mj_kinematics(self.world.model, self.scratch)
        return self.scratch.body(HANDS[self.name]).xpos.copy()

    def run(self, seconds, tasks, forward=lambda t: SPEED):
        """Walk with commands. tasks(t), forward(t): tasks and velocity [m/s] at a time; tasks None: no commands"""
        for tick in range(round(seconds / self.dt)):
            if tasks is not None and tick % EVERY == 0:
                answer = self.command(forward(self.world.t), tasks(self.world.t))
                assert isinstance(answer, CommandAck), answer
            trace = self.side.run(self.dt)
            self.modes |= {trace.modes[i] for i in trace.mode}
            self.hand.append(self.place())

    def angle(self, joint):
        return self.robot.joint_angles(self.world.q)[self.robot.joint_names.index(joint)]

    @property
    def upright(self):
        return self.world.q[2] > 0.85 * self.stand and not any("failsafe" in mode for mode in self.modes)


class Motion:
    """A hand that moves forwards with the robot, and 5 cm to and fro in a random direction.

    metres: commanded way of the robot
    """

    def __init__(self, seed, metres):
        rng = np.random.default_rng(seed)
        along = rng.normal(size=3)
        self.along, self.phase = 0.05 * along / np.linalg.norm(along), rng.uniform(0.0, 2.0 * np.pi)
        self.turning, self.first = 2.0 * np.pi * rng.uniform(0.2, 0.5), [0.1, 0.03, 0.1] + 0.02 * rng.normal(size=3)
        self.ends = metres / SPEED + 0.5

    def forward(self, t):
        return SPEED if t < self.ends else 0.0

    def at(self, t):
        """Way of the hand from its start [m]."""
        moved = SPEED * (integral(t - 0.4) - integral(t - self.ends + 0.1))
        return ramp(t) * self.first + np.sin(self.turning * t + self.phase) * ramp(t - 1.0) * self.along + [moved, 0.0, 0.0]


def integral(t, lasts=1.6):
    """Integral of `ramp` from 0 to t, within `lasts` seconds."""
    s = min(max(t / lasts, 0.0), 1.0)
    return lasts * s**4 * (2.5 - 3.0 * s + s * s) + max(t - lasts, 0.0)


def followed(name, seed, metres, seconds):
    """Return a walk with a hand that moves along, and the rms of its error from one second on [m]."""
    walk, motion = Walk(name, seed), Motion(seed, metres)
    walk.run(seconds, lambda t: [follow(HANDS[name], motion.at, t, walk.start, stiffness=400.0)], motion.forward)
    wanted = [walk.start + motion.at((i + 1) * walk.dt) for i in range(len(walk.hand))]
    late = (np.array(walk.hand) - wanted)[round(1.0 / walk.dt) :]
    return walk, float(np.sqrt((late**2).sum(axis=1).mean()))


OVER = [pytest.param(name, seed, 2.1, 10.0, 1.9, 5e-3, marks=pytest.mark.long) for name in HANDS for seed in range(5)]
"""Two metres."""


@pytest.mark.parametrize(
    ("name", "seed", "metres", "seconds", "least", "most"),
    [("g1", 0, 2.0, 2.4, 0.2, 1e-3), pytest.param("talos", 0, 2.0, 2.4, 0.2, 3e-3, marks=full), *OVER],
)
def test_a_hand_follows_its_target_while_the_robot_walks(name, seed, metres, seconds, least, most, record_property):
    """The URDF of talos has damping and friction of 1 in its joints."""
    walk, rms = followed(name, seed, metres, seconds)
    record_property("x of the base [m], rms of the hand [mm]", [float(walk.world.q[0]), 1e3 * rms])
    assert walk.upright
    assert walk.world.q[0] > least
    assert rms < most


def test_contradicting_tasks_are_refused_by_name_and_the_robot_walks_on():
    walk, elbow = Walk("g1"), PostureTask(joints=["left_elbow_joint"], angles=[0.3])
    foot = walk.robot.contact_names[0]
    contradicting = {
        "tasks[1].kind": ComTask(position=[0.0, 0.0, 0.5]),
        "tasks[1].frame": FrameTask(frame="left_ankle_roll_link", position=[0.0, 0.0, 0.1]),
        "tasks[1].joints": PostureTask(joints=["left_elbow_joint", "left_knee_joint"], angles=[0.0, 0.0]),
        "tasks[1].level": FrameTask(frame=HANDS["g1"], position=[0.0, 0.0, 0.5], level=1),
    }
    for field, task in contradicting.items():
        walk.run(0.3, lambda t: [elbow])
        answer = walk.command(0.0, [elbow, task])
        assert isinstance(answer, ErrorMessage), answer
        assert answer.field == field
    both = walk.command(
        0.0, [FrameTask(frame="pelvis", position=[0.0] * 3), ForceTask(contacts=foot, normal=0.0)], modes={foot: "open"}
    )
    assert isinstance(both, ErrorMessage)
    assert both.field == "modes"
    assert "tasks[0].frame: " in both.message
    assert "got pelvis; tasks[1].kind: " in both.message
    before = walk.world.q[0]
    walk.run(0.9, lambda t: [elbow])
    assert walk.upright
    assert walk.world.q[0] > before + 0.15
    assert walk.angle("left_elbow_joint") == pytest.approx(0.3, abs=0.02)
    stance = walk.robot.joint_angles(load_controller("g1-walk").stance)[walk.robot.joint_names.index("right_elbow_joint")]
    assert walk.angle("right_elbow_joint") == pytest.approx(stance, abs=0.02)


BEHIND = {
    "stays behind": lambda t: FrameTask(frame=HANDS["g1"], position=[0.3, 0.3, 0.9], stiffness=400.0),
    "stays behind, heavy": lambda t: FrameTask(frame=HANDS["g1"], position=[0.3, 0.3, 0.9], stiffness=1000.0, weight=1e6),
    "far away": lambda t: FrameTask(frame=HANDS["g1"], position=[10.0, -10.0, 10.0], rotation=np.eye(3)),
    "the torso turns": lambda t: FrameTask(frame="torso_link", rotation=np.diag([-1.0, -1.0, 1.0]), stiffness=400.0),
    "the arm jumps": lambda t: PostureTask(
        joints=["left_shoulder_pitch_joint"], angles=[-2.5 * (int(t) % 2)], stiffness=1000.0
    ),
    "the waist shakes": lambda t: PostureTask(joints=["waist_yaw_joint"], angles=[0.5 * np.sin(6.0 * t)]),
}
"""Tasks that are out of reach, or hard on the balance."""


@full
@pytest.mark.parametrize("task", BEHIND)
def test_no_task_of_an_arm_makes_a_walking_robot_fall(task):
    walk = Walk("g1")
    walk.run(5.0, lambda t: [BEHIND[task](t)])
    walk.run(1.5, None)  # the command expires: the robot stands
    assert walk.upright
    assert walk.world.q[0] > 0.9
