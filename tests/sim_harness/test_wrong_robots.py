"""Robots in MuJoCo whose messages are plausibly wrong, by joints, feet or an IMU: the first alarm, the stop, the fall.

    pytest -m "" -s tests/sim_harness/test_wrong_robots.py

prints the table of all faults.
"""

from collections import Counter
from functools import cache, reduce
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from fast import every, fast, first_is_fast, full
from scipy.spatial.transform import Rotation

from controllers.build import build_controller
from controllers.config.loading import load, parse
from controllers.contact.ground import YieldingSettings
from idyn.model.so3 import tilt
from sim_harness.measure.fall import Posture
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.robot.imperfections import ImperfectionSettings, ImuSettings, Sensing, Spread
from sim_harness.robot.lying import PerturbationSettings
from sim_harness.run.plan import ExperimentSettings, build_plan, hello_of, load_plan, simulated_robot, with_controller
from sim_harness.world.worlds import AnyEngine
from transport.protocol.messages.state import Contact
from transport.server.service import Service
from transport.startup.loopback import Loopback

AFTER = 0.8  # time from the fault to the end of a run [s]


ORDINARY = "the demand exceeds the torque limits"  # message about a hard step of an undisturbed trot


STRAIGHT = {"waypoints": [[20.0, 0.0]]}
ROBOTS = ("quadruped", "go2")
JOINTS = {"hip": 0, "thigh": 1, "knee": 2}
NAMED, ERROR = 0.055, 0.1  # A fault is named within this time [s], or before this error [rad]


class Outcome(NamedTuple):
    """
    named: time from the fault to the first answer that is not `ok` [s], inf: never; says: its message
    stopped: time from the fault until the torque damps [s]; fell: time from the fault to the fall [s]; worst: tilt [rad]
    early: first message before the fault; ''; modes: of all ticks
    """

    named: float
    says: str
    stopped: float
    fell: float
    worst: float
    early: str
    modes: Counter[str]

    @property
    def stands(self):
        """Whether the server stopped the robot before it fell."""
        return self.stopped < self.fell


class Wrong(Loopback):
    """A client whose states are changed from a time on. wrong: message → message"""

    def __init__(self, service, hello, wrong, start, now):
        super().__init__(service, hello, clock=lambda: now[0])
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
    service = Service(controller, plan.server, clock=lambda: now[0])
    client = Wrong(service, hello_of(plan, controller.robot), wrong, start, now)
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


def provoke(plan, wrong=None, start=1.2, controller=None, motor=None, lasts=AFTER):
    """Run a robot whose states are wrong from `start` on, for so long. motor: (joint, share of its torque) from then on"""
    client, side = build(plan, wrong, start, controller)
    if motor is not None:
        weak = side.world = WeakMotor(side.world, *motor, start)
        client.wrong = changed(tau_applied=lambda tau, _: weak.torque)
    posture = Posture(side.world.robot, side.world.terrain, side.world.q)
    trace = side.run(start + lasts)
    since = trace.t - start
    up = posture.upright(trace.q[:1])
    assert up
    fell = next((float(t) for t, q in zip(since, trace.q, strict=True) if not posture.upright(q[None])), np.inf)
    found = [(t - start, status, text) for t, status, text in client.replies if status != "ok" and ORDINARY not in text]
    early = next((text for t, _, text in found if t <= 0.0), "")
    named, _, says = next((each for each in found if each[0] > 0.0), (np.inf, "", ""))
    damps = ("fault", "damping")
    stopped = next((t for t, status, _ in found if status in damps), np.inf)
    modes = Counter(trace.modes[i] for i in trace.mode)
    return Outcome(named, says, stopped, fell, max(tilt(q[3:7]) for q in trace.q[since > 0]), early, modes)


def changed(**changes):
    """Return a change of states. changes: field, `imu.…` of the IMU's, → function of its numbers and the wrong states so far"""
    count = [0]

    def change(state):
        count[0] += 1
        for name, f in changes.items():
            of_imu, _, field = name.rpartition(".")
            part = state.imu if of_imu else state
            data = f(np.frombuffer(getattr(part, field)).copy(), count[0]).tobytes()
            part = msgspec.structs.replace(part, **{field: data})
            state = msgspec.structs.replace(state, imu=part) if of_imu else part
        return state

    return change


def contacts(change, names):
    """Return a change of foot switches. change: (set of the feet that touch, number of wrong states so far) → set"""
    count = [0]

    def wrong(state):
        count[0] += 1
        touching = change({each.frame for each in state.contacts}, count[0])
        return msgspec.structs.replace(state, contacts=[Contact(frame=name) for name in names if name in touching])

    return wrong


def stuck(joint, *, speed):
    """The encoder of a joint sticks. speed: it also says that the joint stands still"""
    kept = {}

    def angle(q, _):
        q[7 + joint] = kept.setdefault("q", q[7 + joint])
        return q

    def rate(v, _):
        v[6 + joint] = 0.0 if speed else v[6 + joint]
        return v

    return changed(q=angle, vel=rate)


def frozen():
    kept = {}
    return changed(q=lambda q, _: kept.setdefault("q", q), vel=lambda v, _: kept.setdefault("v", v))


def moved(field, i, by):
    """One number of a vector replaced. by: (number, count of wrong states) → number"""

    def change(x, n):
        x[i] = by(x[i], n)
        return x

    return changed(**{field: change})


def swapped(a, b):
    def change(start):
        def swap(x, _):
            x[[start + a, start + b]] = x[[start + b, start + a]]
            return x

        return swap

    return changed(q=change(7), vel=change(6))


def scaled(field, start):
    return changed(**{field: lambda x, _: np.concatenate([x[:start], np.degrees(x[start:])])})


def faults():
    """Name → what to change: a function without arguments, as changes count their states."""
    found = {"frozen state": frozen}
    for name, joint in JOINTS.items():
        found[f"stuck {name}"] = lambda joint=joint: stuck(joint, speed=False)
        found[f"stuck {name} and its speed"] = lambda joint=joint: stuck(joint, speed=True)
        found[f"mirrored speed of the {name}"] = lambda joint=joint: moved("vel", 6 + joint, lambda x, _: -x)
    for rate in (0.05, 0.2, 1.0, 5.0):
        found[f"drift {rate:g} rad/s"] = lambda rate=rate: moved("q", 9, lambda x, n: x + rate * 1e-3 * n)
    found["hips swapped"] = lambda: swapped(0, 3)
    found["thigh and knee swapped"] = lambda: swapped(1, 2)
    found["speeds in deg/s"] = lambda: scaled("vel", 6)
    found["angles in deg"] = lambda: scaled("q", 7)
    found["base drifts 1 m/s"] = lambda: moved("q", 2, lambda x, n: x + 1e-3 * n)
    found["two robots in turn"] = lambda: moved("q", 0, lambda x, n: x + 3.0 * (n % 2))
    return found


FAULTS = faults()
TURNS = {"waypoints": [[0.0, 20.0]]}  # path to a point on the left: hips move, which hardly do on a straight way


@pytest.fixture(scope="module")
def controllers():
    return {name: build_controller(plan_of(name).controller) for name in ROBOTS}


def tried(controllers, robot, fault, wrong=None, **given):
    """The outcome of a fault of a robot, which has no alarm before it."""
    controllers[robot].reset()
    found = provoke(given.pop("plan", plan_of(robot)), wrong, **({"controller": controllers[robot]} | given))
    print(
        f"{robot:10s} {fault:28s} named {1e3 * found.named:6.0f} ms, stopped {1e3 * found.stopped:6.0f} ms, "
        f"fell {1e3 * found.fell:6.0f} ms, tilt {found.worst:.2f} rad: {found.says[:70]}"
    )
    assert found.early == ""
    return found


@pytest.mark.parametrize("robot", first_is_fast(ROBOTS))
@pytest.mark.parametrize("fault", fast([name for name in FAULTS if name != "drift 0.05 rad/s"]))
def test_a_wrong_sensor_is_named_and_stops_the_robot_before_it_falls(controllers, robot, fault):
    turns = {"plan": plan_of(robot, path=TURNS), "controller": None} if "stuck hip" in fault else {}
    found = tried(controllers, robot, fault, FAULTS[fault](), **turns)
    assert found.stands or found.fell == np.inf, found
    rate = next((float(word) for word in fault.split() if word.replace(".", "").isdigit()), None)
    patience = max(NAMED, ERROR / rate) if rate is not None else 0.12 if "mirrored" in fault else 0.07
    assert found.named < patience, found


@full
@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_a_weak_motor_is_named(controllers, robot, strength):
    found = tried(controllers, robot, f"thigh at {strength:.0%}", motor=(1, strength))
    assert found.stands, found
    assert found.named < 0.1


@full
@pytest.mark.parametrize("robot", ROBOTS)
def test_a_switch_that_flickers_is_named_and_the_robot_walks_on(controllers, robot):
    names = controllers[robot].robot.contact_names
    wrong = contacts(lambda touching, n: touching ^ {names[0]} if n % 2 else touching, names)
    found = tried(controllers, robot, "one switch at 500 Hz", wrong)
    assert found.named < NAMED
    assert names[0] in found.says
    assert found.fell == np.inf


@full
@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("how", ["one", "all"])
def test_switches_that_do_not_close_are_named_and_the_robot_walks_on(controllers, robot, how):
    """Without the contradiction with the joints, the robot fell after 0.26 to 0.55 s or was stopped."""
    names = controllers[robot].robot.contact_names
    wrong = contacts(lambda touching, _: touching - set(names[: 1 if how == "one" else None]), names)
    found = tried(controllers, robot, f"{how} of the switches open", wrong)
    assert found.named < 0.15
    assert names[0] in found.says or how == "all"
    assert "is open while its foot is held" in found.says
    assert (found.stopped, found.fell) == (np.inf, np.inf)
    assert found.worst < (0.1 if how == "one" else 0.15)


@full
@pytest.mark.parametrize("rate", [0.05, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("joint", JOINTS)
def test_a_drift_shared_by_position_and_speed_is_harmless_while_it_is_small(controllers, joint, rate):
    """No comparison of the two sees it; see docs/concepts/safety.md."""
    k = JOINTS[joint]

    def angle(q, n):
        q[7 + k] += rate * 1e-3 * n
        return q

    def speed(v, _):
        v[6 + k] += rate
        return v

    found = tried(controllers, "quadruped", f"{joint}, shared drift {rate:g} rad/s", changed(q=angle, vel=speed))
    if rate < 1.0:
        assert found.fell == np.inf
        assert found.worst < 0.1


NOISE = {"joint_position": 1e-4, "joint_speed": 0.05, "base_position": 0.001, "base_velocity": 0.02, "base_rate": 0.01}
DISTURBED = {
    "plain": {},
    "5 ticks of delay": {"link": {"state_delay": 3, "torque_delay": 2}},
    "noise": {"sensing": {"noise": NOISE}},
    "hills": {"ground": {"terrain": {"kind": "heightmap", "bump": 0.01, "side": 9.0, "hills": 9000}}},
    "unknown hills of 3 cm": {"ground": {"terrain": {"kind": "heightmap", "bump": 0.03, "side": 9.0, "hills": 9000}}},
    "lost answers": {"link": {"lost_torques": {"every": 0.5, "length": 0.02}}},
}


@full
@pytest.mark.parametrize("case", DISTURBED)
@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("robot", ["quadruped", "go2", "a1", "solo12"])
def test_healthy_robots_raise_no_alarm(robot, standing, case):
    plan = plan_of(robot, standing=standing, robot=parse(DISTURBED[case], ImperfectionSettings, "robot"))
    client, side = build(plan)
    side.run(2.0)
    assert [text for _, status, text in client.replies if status != "ok" and "torque limits" not in text] == []


def on_a_floor(robot, floor, delay, relaxation):
    """Client, trace of 3 s of standing. floor: −stiffness [N/m], −damping [N·s/m]; delay: both ways [ticks]; relaxation: T_r"""
    link = {"link": {"state_delay": delay[0], "torque_delay": delay[1]}}
    late, engine = parse(link, ImperfectionSettings, "robot"), {"kind": "mujoco", "solref": floor, "timestep": 2e-4}
    moved = parse({"shift": 0.002, "speed": 0.02}, PerturbationSettings, "perturbation")
    plan = plan_of(robot, standing=True, robot=late, engine=parse(engine, AnyEngine, "engine"), perturbation=moved)
    client, side = build(with_controller(plan, {"ground": {"relaxation": relaxation}}))
    return client, side.run(3.0)


@full
@pytest.mark.parametrize("robot", ["quadruped", "go2", "a1", "solo12"])
def test_late_torques_come_to_rest_on_a_lightly_damped_floor(robot):
    client, trace = on_a_floor(robot, (-2e4, -5.0), (1, 1), YieldingSettings().relaxation)
    assert np.abs(np.diff(trace.tau[-500:], axis=0)).sum(axis=1).mean() / 1e-3 < 0.5
    assert {status for _, status, _ in client.replies} == {"ok"}


@full
@pytest.mark.parametrize(("robot", "floor", "delay"), [("quadruped", (-1e5, -5.0), (2, 1)), ("go2", (-2e4, 0.0), (3, 2))])
def test_a_limit_cycle_on_a_lightly_damped_floor_is_named(robot, floor, delay):
    """By its swings; a motor may be named before. With the T_r of servers, 25 ms, go2 does not oscillate."""
    client, _ = on_a_floor(robot, floor, delay, 0.05)
    t, status = next((t, status) for t, status, text in client.replies if "oscillate" in text)
    assert t <= 0.3
    assert status == "degraded"


@full
@pytest.mark.parametrize(("robot", "floor", "delay"), [("quadruped", (-1e5, -20.0), (2, 1)), ("go2", (-2e4, 0.0), (3, 2))])
def test_a_limit_cycle_on_a_damped_floor_does_not_drop_the_robot(robot, floor, delay):
    """With a quarter of the damping the cycle is chaotic: starts that differ by 1 nm to 10 µm drop the quadruped in 2 of 8."""
    client, trace = on_a_floor(robot, floor, delay, 0.05)
    assert any("oscillate" in text for _, _, text in client.replies)
    assert not any(status == "fault" for _, status, _ in client.replies)
    assert trace.q[:, 2].min() > 0.9 * trace.q[0, 2]


@full
@pytest.mark.parametrize("robot", ["quadruped", "go2", "a1", "solo12"])
def test_noise_that_flickers_contacts_does_not_drop_a_standing_robot(robot):
    """Contacts from the noisy geometry come and go, and the torques with them."""
    engine = parse({"kind": "mujoco", "ground": "stiff"}, AnyEngine, "engine")
    plan = plan_of(robot, standing=True, engine=engine, robot=parse(DISTURBED["noise"], ImperfectionSettings, "robot"))
    plan = msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, contacts="geometry"))
    client, side = build(with_controller(plan, {"contact": {"source": "geometry"}}))
    trace = side.run(4.0)
    assert next(t for t, _, text in client.replies if "oscillate" in text) < 0.5
    assert not any(status == "fault" for _, status, _ in client.replies)
    assert trace.q[:, 2].min() > 0.85 * trace.q[0, 2]


@full
@pytest.mark.parametrize("ground", ["default", "stiff"])
@pytest.mark.parametrize("delay", [{"state_delay": 1}, {"state_delay": 1, "torque_delay": 1}])
@pytest.mark.parametrize("standing", [False, True])
@pytest.mark.parametrize("robot", ["go2", "a1"])
def test_rotors_that_only_the_model_has_do_not_fell_a_robot_whose_torques_are_late(robot, standing, delay, ground):
    """Without them links answer a multiple of what is asked; of the late feedback they get what they carry."""
    given = parse({"link": delay, "drive": {"armature": 0.0}}, ImperfectionSettings, "robot")
    engine = parse({"kind": "mujoco", "ground": ground}, AnyEngine, "engine")
    client, side = build(plan_of(robot, standing=standing, engine=engine, robot=given))
    trace = side.run(4.0)
    assert not any(status == "fault" for _, status, _ in client.replies)
    assert trace.q[:, 2].min() > 0.9 * trace.q[0, 2]


# -- single samples and freezes of each sensor, by measured and by estimated bases -----------------------------------------


BEGIN, LASTS = 0.45, 1.05  # time of the fault, and of the run from then on [s]
FREEZES = (0.005, 0.02, 0.1, 0.4)  # lengths of the freezes [s]
SPIKES: dict[str, tuple[float, ...]] = {  # channel → sizes of its spikes
    "base attitude": (0.02, 0.05, 0.09, 0.2, 1.0, 3.0),  # rad, about the forward axis
    "base rate": (0.5, 2.0, 3.9, 7.0, 30.0, 1e300),  # rad/s
    "base position": (0.01, 0.04, 0.06, 0.5, 5.0, 1e300),  # m
    "base velocity": (0.1, 0.5, 0.9, 2.0, 20.0, 1e300),  # m/s
    "specific force": (10.0, 50.0, 140.0, 200.0, 2e3, 1e300),  # m/s²
    "joint angle": (0.02, 0.05, 0.09, 0.2, 1.0, 1e300),  # rad
    "joint speed": (1.0, 5.0, 15.0, 20.0, 50.0, 1e300),  # rad/s
    "joint torque": (1.0, 3.0, 7.0, 20.0, 1e3, 1e300),  # N·m
}
GAITS, BASES = ("stand", "trot"), ("measured", "estimated")


def place_of(base, channel):
    """Return the field of a channel, and its numbers in it."""
    imu = base == "estimated"
    q, v = (0, 0) if imu else (7, 6)
    return {
        "base attitude": ("imu.quat", slice(0, 4)) if imu else ("q", slice(3, 7)),
        "base rate": ("imu.gyro", slice(0, 3)) if imu else ("vel", slice(3, 6)),
        "base position": ("q", slice(0, 3)),
        "base velocity": ("vel", slice(0, 3)),
        "specific force": ("imu.acc", slice(0, 3)),
        "joint angle": ("q", slice(q + 1, q + 2)),
        "joint speed": ("vel", slice(v + 1, v + 2)),
        "joint torque": ("tau_meas" if imu else "tau_applied", slice(1, 2)),
        "all angles": ("q", slice(q, None)),
        "all speeds": ("vel", slice(v, None)),
    }[channel]


def spike(base, channel, size):
    name, part = place_of(base, channel)

    def once(x, n):
        if n == 1 and channel == "base attitude":
            x[part] = (Rotation.from_quat(x[part]) * Rotation.from_rotvec([size, 0.0, 0.0])).as_quat()
        elif n == 1:
            x[part.start] += size
        return x

    return changed(**{name: once})


def freeze(base, channels, length):
    def held(part):
        kept = []

        def hold(x, n):
            if n <= round(length * 1e3):
                kept.append(x[part].copy())
                x[part] = kept[0]
            return x

        return hold

    changes = [changed(**{name: held(part)}) for name, part in (place_of(base, channel) for channel in channels)]
    return lambda state: reduce(lambda state, change: change(state), changes, state)


def switches(length, felt=None):
    """The feet of the first wrong state, or these, for so long [s]."""
    kept = [] if felt is None else [felt]

    def change(state):
        kept.append(state.contacts)
        over = len(kept) > round(length * 1e3) + (felt is not None)
        return state if over else msgspec.structs.replace(state, contacts=kept[0])

    return change


def cases(base):
    """Yield name and change of each fault of a robot."""
    missing = ("base position", "base velocity") if base == "estimated" else ("specific force",)
    channels = [channel for channel in SPIKES if channel not in missing]
    for channel in channels:
        for size in SPIKES[channel]:
            yield f"spike of {channel}, {size:g}", spike(base, channel, size)
    groups = [(channel,) for channel in channels if channel != "joint torque"]
    whole = ("base attitude", "base rate", "specific force" if base == "estimated" else "base velocity")
    for length in FREEZES:
        for group in (*groups, whole, ("all angles", "all speeds"), ("all speeds",)):
            yield f"freeze of {' and '.join(group)}, {length:g} s", freeze(base, group, length)
        if base == "measured":
            yield f"freeze of contacts, {length:g} s", switches(length)
    if base == "measured":
        yield "spike of contacts", switches(1e-3, [])


@cache
def sensed(gait, base, *, noisy=True):
    """Plan and controller of a quadruped in MuJoCo with noise in its sensors."""
    settings = load("experiments", "trot-quadruped", ExperimentSettings)
    spread = Spread(joint_position=1e-4, joint_speed=0.02, base_orientation=5e-4, base_rate=5e-3, base_velocity=5e-3)
    imu = ImuSettings(noise=0.1 if noisy else 0.0) if base == "estimated" else None
    settings = msgspec.structs.replace(
        settings,
        server="quadruped-trot" if gait == "trot" else "quadruped",
        engine=MujocoSettings(),
        contacts="geometry" if base == "estimated" else "binary",
        robot=ImperfectionSettings(sensing=Sensing(noise=spread if noisy else Spread(), imu=imu)),
        controller=settings.controller | {"estimator": {}},
    )
    plan = build_plan(settings)
    return plan, build_controller(plan.controller)


def ran(gait, base, change=None, lasts=0.55, **sensors):
    plan, controller = sensed(gait, base, **sensors)
    controller.reset()
    return provoke(plan, change, BEGIN, controller, lasts=lasts)


@full
@every("gait", first_is_fast(GAITS))
def test_one_sample_of_the_gyro_is_replaced(gait):
    found = ran(gait, "estimated", spike("estimated", "base rate", 7.0))
    assert found.fell == np.inf
    assert set(found.modes) <= {"ok", "degraded"}


@full
@every("gait", first_is_fast(GAITS[::-1]))
def test_a_frozen_imu_is_named_and_the_robot_holds_its_posture(gait):
    found = ran(gait, "estimated", freeze("estimated", ("base attitude", "base rate", "specific force"), 0.4))
    assert found.fell == np.inf
    assert "the rate of the base has been frozen for" in found.says
    assert "failsafe:damping" not in found.modes


@pytest.mark.parametrize("lasts", first_is_fast([1.05, 3.55], 0))
def test_a_robot_without_noise_comes_to_rest_without_an_alarm(lasts):
    found = ran("stand", "estimated", lasts=lasts, noisy=False)
    assert found.modes["ok"] >= 1000 * (BEGIN + lasts) - 5
    assert "frozen" not in found.says


@full
def test_a_torque_sensor_of_1e300_is_harmless():
    assert ran("stand", "estimated", spike("estimated", "joint torque", 1e300)).fell == np.inf


@pytest.mark.long
def test_nearly_all_faults_of_sensors_are_harmless_and_the_others_named():
    runs, fell = 0, {}
    for gait, base in product(GAITS, BASES):
        for name, change in cases(base):
            found, runs = ran(gait, base, change, LASTS), runs + 1
            if found.fell < np.inf:
                fell[f"{gait}, {base}: {name}"] = found.says
    print(f"{runs - len(fell)} of {runs} without a fall; fell: {fell}")
    assert all(fell.values())
    assert len(fell) <= 0.05 * runs
