"""Pictures of the contact laws: `python docs/tools/law_pictures.py` writes docs/images/laws/NAME.svg for each law.

A foot of 1 kg rests on rigid ground with μ = 0.5 and is pulled sideways for one period of 1 ms. The pull is a
velocity v that the foot has already, as a force m v/dt. What each law answers is plotted over the pull, and the
friction over all directions of a strong pull. Settings are those of the paper, without compliance of the ground
(under the laws `sap` and `mujoco` the foot has sunk in until the ground carries it). The law `sensed` gets the forces of the
period before, when the pull was 2 N weaker. `pid` predicts nothing: its picture shows the built-in quadruped, which stands.
"""

import tempfile
from pathlib import Path

import matplotlib as mpl
import msgspec
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

from idyn import Options, Prediction, Robot, State, contacts_from_points, predict
from idyn.laws.law import Law
from idyn.laws.sensed import Sensed
from sim_harness.measure.trace import Trace
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import build_plan, load_plan

FOLDER = Path(__file__).resolve().parents[1] / "images" / "laws"
LAWS = ("no-slip", "coulomb", "exact-cone", "convex", "cone", "contact-free", "sap", "mujoco", "enumeration", "sensed")
SINKING = ("sap", "mujoco")  # laws of ground that yields
DT, MU, PULLS = 0.001, 0.5, np.linspace(0.0, 15.0, 61)
RISE = 2.0  # growth of the pull in a period, for the law `sensed` [N]
NORMAL, FRICTION, LIMIT = "#37474f", "#e64a19", "#90a4ae"
FOOT = """<robot name="foot">
  <link name="foot"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="wheel"><inertial><mass value="1e-6"/>
    <inertia ixx="1e-6" ixy="0" ixz="0" iyy="1e-6" iyz="0" izz="1e-6"/></inertial></link>
  <joint name="motor" type="continuous"><parent link="foot"/><child link="wheel"/><axis xyz="0 0 1"/></joint>
</robot>"""


def foot() -> Robot:
    """Return a body whose only motor turns a weightless wheel, so that all its motion is up to the contact."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "foot.urdf"
        path.write_text(FOOT, encoding="utf-8")
        return Robot.from_urdf(path)


def pulled(robot: Robot, law: Law | str, pull: float, angle: float = 0.0, gap: float = 0.0) -> Prediction:
    """Return the prediction for a foot that is pulled by a force [N] in a direction [rad] of the ground plane. gap: [m]"""
    if law == "sensed":
        law = Sensed(pulled(robot, "exact-cone", max(0.0, pull - RISE), angle).p)
    v = np.zeros(robot.nv)
    v[:2] = pull * DT * np.array([np.cos(angle), np.sin(angle)])
    up, at = np.array([[0.0, 0.0, 1.0]]), np.zeros((1, 3))
    contacts = contacts_from_points(robot, ("foot",), at, up, np.array([MU]), np.array([gap]))
    state = State(q=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]), v=v)
    return predict(robot, state, contacts, np.zeros(1), law=law, dt=DT, options=Options.paper())


def picture(robot: Robot, law: str) -> Figure:
    """Return three plots: forces and velocities over the pull, and the friction by direction."""
    gap = brentq(lambda gap: pulled(robot, law, 0.0, gap=gap).v_plus[2], -0.01, 0.0, xtol=1e-9) if law in SINKING else 0.0
    answers = [pulled(robot, law, pull, gap=gap) for pull in PULLS]
    force, velocity = np.array([each.force[0] for each in answers]), 1e3 * np.array([each.v_plus[:3] for each in answers])
    around = np.array([pulled(robot, law, 12.0, angle, gap).force[0, :2] for angle in np.linspace(0.0, 2 * np.pi, 121)])
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.plot(PULLS, force[:, 2], color=NORMAL, label="normal force")
    left.plot(PULLS, -force[:, 0], color=FRICTION, label="friction")
    left.plot(PULLS, MU * force[:, 2], color=LIMIT, linestyle=":", label="μ × normal force")
    left.set(xlabel="pull [N]", ylabel="force on the foot [N]", title="forces", ylim=(-0.5, 16.0))
    middle.plot(PULLS, velocity[:, 0], color=FRICTION, label="sliding")
    middle.plot(PULLS, velocity[:, 2], color=NORMAL, label="opening")
    middle.set(xlabel="pull [N]", ylabel="velocity after 1 ms [mm/s]", title="motion", ylim=(-10.5, 16.0))
    circle = np.linspace(0.0, 2 * np.pi, 200)
    radius = MU * 9.81
    right.plot(radius * np.cos(circle), radius * np.sin(circle), color=LIMIT, linestyle=":", label="μ × weight")
    right.plot(*around.T, color=FRICTION, label="friction, pull 12 N")
    right.set(xlabel="x [N]", ylabel="y [N]", title="friction by direction", aspect="equal", xlim=(-14, 14), ylim=(-14, 14))
    return finished(figure)


def finished(figure: Figure) -> Figure:
    """Return a figure with grids and legends."""
    for axes in figure.axes:
        axes.grid(color="#eceff1")
        axes.legend(fontsize=7, loc="upper left")
    return figure


def standing(law: str, kp: float) -> Trace:
    """Return half a second of the built-in quadruped that stands on rigid ground. kp: of the joint feedback [N·m/rad]"""
    settings = load_plan("stand", 0.5).settings
    changes = settings.controller | {"law": law, "torque_feedback": {"kp": kp, "kd": 0.1}}
    plan = build_plan(msgspec.structs.replace(settings, laws=(law,), controller=changes))
    return run_in_process(plan, law, lambda *_: None).trace


def picture_of_pid() -> Figure:
    """Return three plots: how far the base sinks, the torque of a knee, and the error by the gain."""
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for law, colour in (("coulomb", NORMAL), ("pid", FRICTION)):
        trace = standing(law, 20.0)
        left.plot(trace.t, 1e3 * (trace.q[:, 2] - trace.q[0, 2]), color=colour, label=law)
        middle.plot(trace.t, trace.tau[:, 2], color=colour, label=law)
    left.set(xlabel="time [s]", ylabel="motion of the base [mm]", title="height, kp = 20 N·m/rad", ylim=(-3.5, 1.5))
    middle.set(xlabel="time [s]", ylabel="torque of a knee [N·m]", title="torque, kp = 20 N·m/rad", ylim=(-1.0, 0.5))
    gains = (5.0, 10.0, 20.0, 50.0, 100.0)
    ends = [standing("pid", kp) for kp in gains]
    errors = [1e3 * np.abs(trace.q_ref[-1] - trace.q[-1, 7:]).max() for trace in ends]
    right.loglog(gains, errors, "o", color=FRICTION, label="pid")
    expected = [1e3 * np.abs(trace.tau[-1]).max() / kp for trace, kp in zip(ends, gains, strict=True)]
    right.loglog(gains, expected, color=LIMIT, linestyle=":", label="torque / kp")
    right.set(xlabel="kp [N·m/rad]", ylabel="largest error of a joint [mrad]", title="error by the gain", ylim=(2.0, 400.0))
    return finished(figure)


def main() -> None:
    """Write the pictures of all laws."""
    mpl.rcParams |= {
        "svg.hashsalt": "idyn",
        "svg.fonttype": "none",
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.axisbelow": True,
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    robot = foot()
    for law in LAWS:
        picture(robot, law).savefig(FOLDER / f"{law}.svg", metadata={"Date": None})
    picture_of_pid().savefig(FOLDER / "pid.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
