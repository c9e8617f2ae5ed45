"""Tasks in MuJoCo: tracking, torque rate and forces of whole-body control. Figures: docs/results/tasks.md."""

import mujoco
import numpy as np
import pytest
from fast import fast, full
from task_runs import DT, Run, circle, follow, ramp

from idyn.tasks import FrameTask


def trunk_circle(radius=0.03, frequency=0.5, seconds=6.0, **world):
    """The trunk follows a circle in the horizontal plane, with constant attitude. The circle begins after one second, about the
    position where the robot then stands."""
    run, path, start = Run(**world), circle(radius, frequency, (0, 1)), {}

    def tasks(t, q):
        if t <= 1.0:
            start["x"] = run.position("root_joint", q)
        return [follow("root_joint", path, t - 1.0, start["x"], rotation=np.eye(3))]

    return run.loop(seconds, tasks, lambda t, q: np.linalg.norm(q[:3] - start["x"] - path(t - 1.0)))


@pytest.mark.parametrize("law", fast(["coulomb", "exact-cone"], "coulomb"))
def test_the_trunk_follows_a_circle(law):
    run = trunk_circle(law=law)
    assert run.upright
    assert run.rms <= 0.15
    assert run.rate <= 5.0


@full
@pytest.mark.parametrize("ground", ["firm", "stiff"])
def test_the_trunk_follows_a_circle_on_firmer_ground(ground):
    run = trunk_circle(ground=ground)
    assert run.upright
    assert run.rms <= 0.15
    assert run.rate <= 5.0


@full
def test_the_trunk_follows_a_circle_with_sensor_noise():
    run = trunk_circle(noise=1.0)
    assert run.upright
    assert run.rms <= 0.4
    assert run.rate <= 100.0


@full
def test_more_acceleration_than_friction_gives_does_not_overturn_the_robot():
    """5 cm at 1 Hz asks for 2.0 m/s², friction of 0.15 gives 1.5."""
    run = trunk_circle(radius=0.05, frequency=1.0, mu=0.15)
    assert run.upright
    assert run.rms <= 60.0


@full
def test_a_free_foot_draws_a_circle_while_the_trunk_stands_on_three():
    run, start = Run(), {}
    drawn = circle(0.03, 0.5, (0, 2))
    shift = np.array([-0.03, -0.03, 0.0])

    def path(t):
        return drawn(t) + np.array([0.0, 0.0, 0.06 * ramp(t)])

    def tasks(t, q):
        if t == 0.0:
            start["x"] = run.position("root_joint", q)
        if t <= 1.0:
            start["foot"] = run.position("FL_foot", q)
        trunk = FrameTask(frame="root_joint", position=start["x"] + ramp(t) * shift, rotation=np.eye(3))
        return [trunk] if t <= 1.0 else [trunk, follow("FL_foot", path, t - 1.0, start["foot"])]

    def error(t, q):
        return np.linalg.norm(run.position("FL_foot", q) - start["foot"] - path(t - 1.0))

    run.loop(6.0, tasks, error, without="FL_foot")
    assert run.upright
    assert run.rms <= 0.1
    assert run.rate <= 5.0


def pressed_sled(speed, friction_solref=None, mu=0.5, mass=6.8, push=20.0):
    """Normal force [N] of a mass that MuJoCo presses on the ground with a constant force while it slides at constant speed: no
    robot and no controller but the one of the speed."""
    solref = "" if friction_solref is None else f'solreffriction="{friction_solref} 1"'
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option timestep="{DT}" cone="elliptic" gravity="0 0 0"/>
      <worldbody><geom name="ground" type="plane" size="5 5 0.1"/>
        <body name="sled" pos="0 0 0.01"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
          <geom name="tip" type="sphere" size="0.01" mass="{mass}"/></body></worldbody>
      <contact><pair geom1="ground" geom2="tip" condim="3" friction="{mu} {mu} 0.005 0.0001 0.0001" {solref}/></contact>
    </mujoco>""")
    data, forces, wrench = mujoco.MjData(model), [], np.zeros(6)
    data.qvel[0] = speed
    for _ in range(3000):
        data.qfrc_applied[:] = mu * push - 200.0 * mass * (data.qvel[0] - speed), -push
        mujoco.mj_step(model, data)
        forces.append(0.0)
        for i in range(data.ncon):
            mujoco.mj_contactForce(model, data, i, wrench)
            forces[-1] += wrench[0]
    return np.array(forces[1000:])


def test_mujocos_sliding_contacts_bounce_above_some_millimetres_per_second():
    """MuJoCo's relaxed contact at sliding speed v is in equilibrium at a gap μ v b/k, b and k the damping and stiffness of
    its constraints. Where this exceeds the penetration of the load, the contact opens and closes in turn: no controller
    prevents it."""
    assert pressed_sled(0.004).std() < 0.01
    assert pressed_sled(0.05).std() > 10.0
    assert pressed_sled(0.05, friction_solref=1.0).std() < 0.01
