"""docs/examples/arm/press_and_slide.py: how exactly a Panda presses while it slides, judged by MuJoCo."""

import runpy

import numpy as np
import pytest
from documents import ROOT
from fast import full

from idyn.errors import ConfigError
from sim_harness.run.plan import load_plan

PRESS = 20.0


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(ROOT / "docs" / "examples" / "arm" / "press_and_slide.py"))


@full
@pytest.mark.parametrize(("seconds", "share", "off"), [(5.0, 0.001, 1e-4), (1.0, 0.01, 2e-4)])
def test_the_force_is_as_asked_where_friction_is_slow(example, seconds, share, off):
    """At 19 and 94 mm/s in the middle of the line."""
    forces, worst = example["slide"](example["CONTACTS"]["slow friction"], seconds)
    assert np.abs(forces - PRESS).max() <= share * PRESS
    assert worst <= off


@full
def test_the_force_bounces_in_mujocos_default_contact(example):
    """As that of a sled without any controller, see `test_tasks_in_mujoco`. The mean is as asked, within a tenth."""
    forces, worst = example["slide"](example["CONTACTS"]["default"], 2.0)
    assert forces.min() == 0.0
    assert abs(forces.mean() / PRESS - 1.0) < 0.1
    assert worst < 1e-3


def test_a_friction_without_a_time_constant_is_refused(tmp_path):
    path = tmp_path / "robot.toml"
    path.write_text(
        '[controller]\nrobot = "go2"\n[experiment]\nlaws = ["coulomb"]\nduration = 1.0\n'
        '[experiment.engine]\nkind = "mujoco"\nsolreffriction = [0.0, 1.0]\n'
    )
    with pytest.raises(ConfigError, match="solreffriction: expected"):
        load_plan(str(path))
