"""The friction of the world and the one that the controller believes are two settings, each shown."""

from sim_harness.commands.main import main
from sim_harness.run.plan import frictions, load_plan

FILE = """
[robot]
urdf = "example-robot-data:go2_description/urdf/go2.urdf"
contact = [
    {{ frame = "FL_foot", radius = 0.02 }}, {{ frame = "FR_foot", radius = 0.02 }},
    {{ frame = "RL_foot", radius = 0.02 }}, {{ frame = "RR_foot", radius = 0.02 }},
]

[robot.standing]
FL_thigh_joint = 0.8
FL_calf_joint = -1.5
FR_thigh_joint = 0.8
FR_calf_joint = -1.5
RL_thigh_joint = 0.8
RL_calf_joint = -1.5
RR_thigh_joint = 0.8
RR_calf_joint = -1.5
{controller}
[experiment]
laws = ["coulomb"]
mu = 0.3
duration = 0.05
paced = false
"""


def plan_of(path, controller):
    path.write_text(FILE.format(controller=controller), encoding="utf-8")
    return load_plan(str(path))


def test_the_worlds_friction_does_not_change_what_the_controller_believes(tmp_path):
    path = tmp_path / "robot.toml"
    assert frictions(plan_of(path, "[controller.contact]\nmu = 0.8")) == (0.3, 0.8)
    assert frictions(plan_of(path, "")) == (0.3, 0.3)


def test_simulate_says_both(tmp_path, capsys):
    path = tmp_path / "robot.toml"
    plan_of(path, "[controller.contact]\nmu = 0.8")
    main(["simulate", str(path)])
    assert "friction: 0.3 in the world, the controller believes 0.8" in capsys.readouterr().out
