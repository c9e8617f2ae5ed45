"""One TOML file with a section for each kind of configuration."""

import pytest
from fast import every

from controllers.build import build_controller
from controllers.config.loading import load
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.run.plan import load_plan

ONE_FILE = """
[robot]
urdf = "example-robot-data:solo_description/robots/solo12.urdf"
contact = [{ frame = "FL_FOOT", radius = 0.016 }]

[controller.feedback]
kp = 123.0

[experiment]
laws = ["coulomb"]
duration = 1.0
"""


def written(folder, text):
    path = folder / "one.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_sections_of_a_file_name_one_another(tmp_path):
    plan = load_plan(written(tmp_path, ONE_FILE))
    assert plan.settings.duration == 1.0
    assert plan.controller.feedback.kp == 123.0
    assert build_controller(plan.controller).robot.spheres.keys == ("FL_FOOT",)


def test_a_section_may_name_another_file_instead(tmp_path):
    text = ONE_FILE.replace("[controller.feedback]", '[controller]\nrobot = "go2"\n\n[controller.feedback]')
    controller = load("controllers", written(tmp_path, text), ControllerSettings)
    assert (controller.robot, controller.feedback.kp) == ("go2", 123.0)


@every(
    ("before", "after", "where"),
    [
        ("kp = 123.0", "kpp = 123.0", "one.toml.controller.feedback.kpp"),
        ("laws", "law", "one.toml.experiment.law"),
        ("[experiment]", "[server]", "one.toml.experiment"),
        ("[robot]", "[robots]", "experiments.one.robots"),
    ],
)
def test_an_error_names_the_section(tmp_path, before, after, where):
    with pytest.raises(ConfigError, match=f"^{where}: "):
        load_plan(written(tmp_path, ONE_FILE.replace(before, after)))
