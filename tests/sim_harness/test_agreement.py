"""Contact parameters of the law `mujoco` against those of the simulated world."""

from fast import every

from idyn.laws.mujoco.law import SoftContact
from idyn.laws.settings import CoulombSettings, MujocoLawSettings
from sim_harness.commands.main import main
from sim_harness.engines.lcp import PolygonLcp
from sim_harness.mujoco.law import differences
from sim_harness.mujoco.mujoco_settings import MujocoSettings


def test_equal_parameters_and_other_laws_and_worlds_are_not_reported():
    stiff = MujocoLawSettings(contact=SoftContact(solref=(0.002, 1.0)))
    assert differences(MujocoLawSettings(), MujocoSettings(), 0.001) == []
    assert differences(stiff, MujocoSettings(ground="stiff"), 0.001) == []
    assert differences(CoulombSettings(), MujocoSettings(ground="stiff"), 0.001) == []
    assert differences(stiff, PolygonLcp(), 0.001) == []
    assert differences(MujocoLawSettings(), MujocoSettings(integrator="implicitfast"), 0.001) == []
    assert differences(MujocoLawSettings(integrator="implicit"), MujocoSettings(integrator="implicit"), 0.001) == []


@every(
    ("law", "engine", "said"),
    [
        ({}, {"ground": "firm"}, ["contact.solref = (0.02, 1.0), in the world (0.005, 1.0)"]),
        ({"cone": "pyramidal"}, {}, ["cone = pyramidal, in the world elliptic"]),
        ({}, {"impratio": 10.0}, ["impratio = 1.0, in the world 10.0"]),
        (
            {"contacts": {"LF_FOOT": SoftContact(solref=(0.01, 1.0))}},
            {},
            ["contacts.LF_FOOT.solref = (0.01, 1.0), in the world (0.02, 1.0)"],
        ),
        (
            {"integrator": "implicitfast"},
            {"integrator": "implicit"},
            ["integrator = implicitfast, in the world implicit: forces agree, joint accelerations do not"],
        ),
        ({}, {"condim": 4, "spin": 0.005}, ["contact.condim = 3, in the world 4"]),
        ({"contact": SoftContact(condim=6, spin=0.01)}, {"condim": 6}, ["contact.spin = 0.01, in the world 0.005"]),
        ({}, {"timestep": 0.0005}, ["physics steps of 0.0005 s; the law predicts one step of 0.001 s"]),
    ],
)
def test_each_difference_is_named(law, engine, said):
    assert differences(MujocoLawSettings(**law), MujocoSettings(**engine), 0.001) == said


def test_simulate_names_the_differences(tmp_path, capsys):
    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        'server = "quadruped"\nlaws = ["mujoco"]\nduration = 0.01\n[engine]\nkind = "mujoco"\nground = "firm"\n'
    )
    main(["simulate", str(experiment)])
    assert "note: the law mujoco is not that of the world: contact.solref = (0.02, 1.0)" in capsys.readouterr().out
