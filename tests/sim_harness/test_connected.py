"""`idyn simulate --connect`: a server of another controller or of another robot is named."""

import json

import msgspec
import pytest
from fast import full
from known_ends import STAND

from sim_harness.commands.main import main
from sim_harness.run.experiment import other_controller, served_controller
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.run.server_process import ServerProcess


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(STAND.replace("2.0", "0.6").replace('"penalty"', '"lcp"'), encoding="utf-8")
    return load_plan(str(path))


def test_the_controller_that_is_asked_for_is_no_other_one(plan):
    asked = with_controller(plan, {"law": "coulomb"}).controller
    assert other_controller(plan, asked) == ""
    assert other_controller(plan, served_controller(msgspec.to_builtins(asked))) == ""
    renamed = msgspec.structs.replace(asked, robot="/somewhere/quadruped.toml")
    assert other_controller(plan, renamed) == ""  # the server compares the models themselves


def test_each_setting_that_differs_is_named_with_both_values(plan):
    other = with_controller(plan, {"law": "cone", "selection": "torque", "feedback": {"kp": 1.5}}).controller
    text = other_controller(plan, other)
    assert "another controller than the experiment asks for" in text
    for part in (
        "law.kind = 'cone' instead of 'coulomb'",
        "selection = 'torque' instead of 'force'",
        "feedback.kp = 1.5 instead of",
    ):
        assert part in text
    gait = with_controller(load_plan("trot-quadruped"), {"law": "coulomb"}).controller
    assert "reference.kind = 'gait' instead of 'hold'" in other_controller(plan, gait)
    assert "period" not in other_controller(plan, gait)  # the settings of another kind are not compared
    grips = msgspec.structs.replace(plan.controller, grip=load_plan("grasp").controller.grip)
    assert "grip = 'spring' instead of None" in other_controller(plan, grips)


def test_any_law_of_the_experiment_will_do(plan):
    settings = msgspec.structs.replace(plan.settings, laws=("no-slip", "cone"))
    both = msgspec.structs.replace(plan, settings=settings)
    assert other_controller(both, with_controller(plan, {"law": "cone"}).controller) == ""
    assert "law.kind = 'sap' instead of 'no-slip'" in other_controller(both, with_controller(plan, {"law": "sap"}).controller)


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
        arm = tmp_path / "arm.toml"
        arm.write_text('server = "arm"\nlaws = ["coulomb"]\nduration = 0.1\n', encoding="utf-8")
        assert main(["simulate", str(arm), "--connect", process.endpoint]) == 2
        assert "refused the hello (model_mismatch): model.urdf_sha256" in capsys.readouterr().err
