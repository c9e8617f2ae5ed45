"""Configurations: shipped ones load, invalid ones are rejected with the path of the error."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from disk import written
from fast import every, every_row, first_is_fast

from controllers.build import build_controller, changed, controller_from_snapshot, load_controller
from controllers.config.loading import files, find, load, parse
from controllers.config.tables import kind_of, merged
from controllers.contact.ground import AnyTerrain
from controllers.robot.kinematics import resting
from controllers.robot.load import load_robot, urdf_path
from controllers.settings import ControllerSettings
from idyn import Selection, contacts_from_geometry
from idyn.errors import ConfigError, FrameNotFound, IdynError, InputError
from idyn.laws import LAWS, CoulombSettings, NoSlipSettings
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller

SHIPPED = {  # how many motors and contacts they stand with
    "quadruped": (12, 4),
    "solo12": (12, 4),
    "a1": (12, 4),
    "go2": (12, 4),
    "g1": (29, 8),
    "talos": (32, 8),
    "bolt": (6, 2),
    "fivebar": (8, 4),
}
QUADRUPED = find("robots", "quadruped").parent / "quadruped.urdf"


@every("name", SHIPPED)
def test_shipped_controllers_load(name):
    controller = load_controller(name)
    assert (controller.robot.na, len(controller.contacts(controller.stance))) == SHIPPED[name]


def test_every_shipped_robot_has_a_controller():
    assert files("controllers").keys() >= files("robots").keys()


def controller_text(**changes):
    text = 'robot = "solo12"\n'
    tables = []
    for key, value in changes.items():
        table, _, field = key.rpartition("__")
        if table:
            tables.append(f"[{table.replace('__', '.')}]\n{field} = {value}\n")
        else:
            text += f"{field} = {value}\n"
    return text + "".join(tables)


def build(folder, text):
    return load_controller(str(written(folder / "mine.toml", text)))


def test_a_configuration_is_loaded_by_path_and_a_urdf_beside_it_is_found(tmp_path):
    assert build(tmp_path, controller_text(law='"no-slip"')).settings.law == NoSlipSettings()
    (tmp_path / "mine.urdf").write_text(QUADRUPED.read_text(encoding="utf-8"), encoding="utf-8")
    contact = 'contact = [{ frame = "LF_FOOT", radius = 0.01, mu = inf }]'
    robot, q = load_robot(str(written(tmp_path / "mine.toml", f'urdf = "mine.urdf"\n{contact}')))
    assert np.isinf(robot.spheres.mu[0])
    assert q.shape == (19,)


@every_row(
    ({"lwa": '"coulomb"'}, "controllers.mine.lwa", "no such setting.*law"),
    ({"feedback__kpp": "1.0"}, "controllers.mine.feedback.kpp", "no such setting.*kp"),
    ({"feedback__kp": '"stiff"'}, "controllers.mine.feedback.kp", "float.*str"),
    ({"feedback__kp": "-1.0"}, "controllers.mine.feedback.kp", "0 to .* 1/s² .*got -1"),
    ({"contact__margin": "nan"}, "controllers.mine.contact.margin", ">= 0"),
    ({"period": "inf"}, "period", "finite"),
    ({"reference__kind": '"sway"\nstart = inf'}, "reference.start", "finite"),
    ({"contact__source": '{ kind = "fused", release = 0.001 }'}, "contact.source.release", "margin"),
    ({"reference__kind": '"gait"\ngait.period = inf'}, "reference.gait.period", "0.05 to 60 s, got inf"),
    ({"reference__kind": '"gait"\ngait.duty = 1.0'}, "reference.gait.duty", "expected 0 < x < 1"),
    ({"reference__kind": '"gait"\ngait.fast.duty = 1.0'}, "reference.gait.fast.duty", "expected 0 < x < 1"),
    ({"reference__kind": '"gait"\ngait.fast.speeds=[1, 0.5]'}, "reference.gait.fast.speeds", "expected 0 ≤ first < second"),
    ({"reference__kind": '"gait"\ngait.pattern = "table"'}, "reference.gait.touchdown", "one per foot, got 0"),
    ({"reference__kind": '"gait"\ngait = { pattern = "table", touchdown = [0, 0.5, 0.5, 1] }'}, "gait.touchdown[3]", "< 1"),
    ({"reference__kind": '"gait"\npath.tolerance = -1.0'}, "reference.path.tolerance", "expected > 0, got -1"),
    ({"reference__kind": '"gait"\npath.acceleration = -1.0'}, "reference.path.acceleration", "expected > 0, got -1"),
    ({"stabilisation__kp": "[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]"}, "stabilisation.kp", "expected 0 for forward, left and yaw"),
    ({"stabilisation__kv": "[0.0, 0.0, -1.0, 0.0, 0.0, 0.0]"}, "stabilisation.kv", "expected finite gains ≥ 0"),
    ({"reality__memory": "0.0"}, "reality.memory", "0"),
    ({"reality": "{ degraded = 0.1, recovered = 0.2 }"}, "reality.recovered", "expected ≤ degraded = 0.1"),
    ({"reference__kind": '"gait"\ngait.touchdown = [0.0, 0.5, 0.5, 0.0]'}, "reference.gait.touchdown", "table"),
    ({"reference__kind": '"gait"\npath.velocity = [nan, 0.0, 0.0]'}, "reference.path.velocity", "finite"),
    ({"stabilisation__kv": "[0.0, 0.0, inf, 0.0, 0.0, 0.0]"}, "stabilisation.kv", "finite"),
    ({"law": '{kind="enumeration", edges=6}'}, "law.edges", "no such setting of 'enumeration'; it belongs to coulomb, convex"),
    ({"feedback__kp": "nan"}, "controllers.mine.feedback.kp", "got nan"),
    ({"feedback__kd": "-0.1"}, "controllers.mine.feedback.kd", "0 to .* 1/s .*got -0.1"),
    ({"feedback__ki": "-5.0"}, "controllers.mine.feedback.ki", "0 to .* 1/s³ .*got -5"),
    ({"feedback__integral_limit": "-1.0"}, "controllers.mine.feedback.integral_limit", "0 to .* rad/s² .*got -1"),
    ({"safety__damping": "-2.0"}, "controllers.mine.safety.damping", "0 to .* N·m·s/rad, got -2"),
    ({"safety__torque_rate": "-1000.0"}, "controllers.mine.safety.torque_rate", "to inf N·m/s, got -1000"),
    ({"safety__fallback": '"pray"'}, "controllers.mine.safety.fallback", "pray"),
    ({"safety__max_tilt": '"a lot"'}, "controllers.mine.safety.max_tilt", "float"),
    ({"contact__margin": "[1]"}, "controllers.mine.contact.margin", "float"),
    ({"ground__gap_noise": "-1e-5"}, "controllers.mine.ground.gap_noise", ">= 0"),
    ({"ground__recovery_speed": "-0.05"}, "controllers.mine.ground.recovery_speed", ">= 0"),
    ({"selection": '"torqe"'}, "controllers.mine.selection", "torqe"),
    ({"consistency": '"sometimes"'}, "controllers.mine.consistency", "sometimes"),
    ({"reference__kind": '"dance"'}, "controllers.mine.reference.kind", "dance"),
    ({"law": '"columb"'}, "law", "columb.*coulomb"),
    ({"law__edges": "5"}, "law.edges", "even"),
    ({"law": '{ kind = "cone", backend = "gurobi" }'}, "law.backend", "gurobi.*daqp"),
    ({"law": '{ kind = "columb", edges = 8 }'}, "law.kind", "columb.*coulomb"),
    ({"law": "{ kind = [1] }"}, "law.kind", "expected one of no-slip"),
    ({"law": "{ kind = 3 }"}, "law.kind", "expected one of no-slip"),
    ({"law": '{ kind = "sensed", delay = 0 }'}, "law.delay", ">= 1"),
    ({"ground": '{ kind = "rigid", memory = 0.01 }'}, "ground.memory", "it belongs to yielding"),
    ({"contact__release": "0.01"}, "contact.release", "no such setting"),
    ({"reference__kind": '"gait"\nground = "felt"'}, "reference.ground", "no such setting"),
    ({"contact__terrain": '"slope"', "reference__kind": '"two-legs"'}, "contact.terrain.kind", "'slope'.*'two-legs'"),
    ({"period": "0.0"}, "period", "> 0"),
    ({"period": "nan"}, "period", "> 0"),
    ({"reference__kind": '"sway"\namplitude = -0.01'}, "reference.amplitude", "> 0"),
    ({"reference__kind": '"squat"\nfrequency = 0.0'}, "reference.frequency", "> 0"),
    ({"reference__kind": '"sinusoid"\nramp = nan'}, "reference.ramp", "> 0"),
    ({"contact__terrain": '{ kind = "heightmap", resolution = 2.0 }'}, "contact.terrain.resolution", "contact.terrain"),
    ({"contact__terrain": '{ kind = "heightmap", seed = -1 }'}, "contact.terrain.seed", "contact.terrain"),
    ({"contact__terrain": '{ kind = "flat", friction = { low = 2.0 } }'}, "contact.terrain.friction", "contact.terrain"),
    ({"contact__terrain": '{ kind = "slope", friction = { high = inf } }'}, "contact.terrain.friction", "contact.terrain"),
    ({"contact__terrain": '{ kind = "stairs", friction = {seed = -3} }'}, "contact.terrain.friction.seed", "contact.terrain"),
    ({"contact__terrain": '{ kind = "hills" }'}, "contact.terrain.kind", "contact.terrain"),
    ({"contact__terrain": '{ kind = "stairs", rise = 0 }'}, "contact.terrain.rise", "contact.terrain"),
    (
        {"contact__terrain": '{ kind = "boxes", boxes = [{ center = [inf, 0.0, 0.0] }] }'},
        "contact.terrain.boxes",
        "contact.terrain",
    ),
    ({"contact__terrain": '{ kind = "flat", bump = 1 }'}, "contact.terrain.bump", "contact.terrain"),
)
def test_invalid_settings_are_named_with_their_path(changes, where, says, tmp_path):
    with pytest.raises(ConfigError, match=says) as caught:
        build(tmp_path, controller_text(**changes))
    assert caught.value.path.endswith(where)
    assert str(caught.value).startswith(caught.value.path + ": ")


def test_missing_removed_and_unknown_settings_are_named_and_valid_choices_listed():
    """Controllers are built from the settings in logs: a removed setting is not ignored."""
    with pytest.raises(ConfigError, match="robot"):
        parse({}, ControllerSettings, "controllers.mine")
    with pytest.raises(ConfigError, match=r"^contact\.terrain\.kind: "):
        parse({"friction": {}}, AnyTerrain, "contact.terrain")
    with pytest.raises(ConfigError, match="expected one of off, torque, torque-change, impulse-change, force") as refused:
        parse({"robot": "quadruped", "selection": "toi"}, ControllerSettings, "mine")
    assert refused.value.path == "mine.selection"
    settings = load("controllers", "quadruped", ControllerSettings)
    for changes, where in (
        ({"law": "columb"}, "controller.law.kind"),
        ({"selection": "torqe"}, "controller.selection"),
        ({"reference": "dance"}, "controller.reference.kind"),
    ):
        with pytest.raises(ConfigError) as caught:
            changed(settings, changes)
        assert caught.value.path == where
    snapshot = load_controller("quadruped-trot").snapshot()
    snapshot["settings"]["reference"]["gait"]["settle"] = 0.1
    with pytest.raises(ConfigError, match=r"settings\.reference\.gait\.settle: no such setting"):
        controller_from_snapshot(snapshot)


def test_unknown_names_files_that_are_no_text_and_ground_out_of_reach_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"controllers\.solo: .*solo12"):
        load_controller("solo")
    with pytest.raises(ConfigError, match=r"robots\.solo21: .*solo12"):
        build(tmp_path, 'robot = "solo21"')
    with pytest.raises(ConfigError, match="no such file"):
        load_controller(str(tmp_path / "nothing.toml"))
    for text in (b"\xff\xfe\x00", b"robot = ", b"robot = 'a'\nrobot = 'b'", b"\x00", b"[["):
        (tmp_path / "mine.toml").write_bytes(text)
        with pytest.raises(ConfigError, match=r"mine\.toml: not valid TOML"):
            load_controller(str(tmp_path / "mine.toml"))
    with pytest.raises(ConfigError, match="do not reach the contact points") as caught:
        build(tmp_path, controller_text(reference__kind='"squat"\namplitude = 1.0'))
    assert caught.value.path == "reference.amplitude"


@every_row(
    ('urdf = "nowhere.urdf"', ConfigError, r"robot\.urdf: no such file"),
    ('urdf = "example-robot-data:nowhere.urdf"', ConfigError, r"robot\.urdf: no such file"),
    ('urdf = "{urdf}"\nbase = "flying"', InputError, r"base: .*'flying'"),
    ('urdf = "{urdf}"\nunactuated = ["LF_Y_9"]', InputError, r"unactuated: .*LF_Y_9.*LF_Y_"),
    ('urdf = "{urdf}"\ntau_max = {{ LF_Y_9 = 1.0 }}', InputError, r"tau_max: .*LF_Y_9.*LF_Y_"),
    ('urdf = "{urdf}"\n[standing]\nLF_Y_9 = 1.0', ConfigError, r"standing\.LF_Y_9: .*LF_Y_"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOT" }}]', FrameNotFound, r"LF_FOT.*LF_FOOT"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOOT", mu = -0.5 }}]', InputError, r"contact\.LF_FOOT\.mu: .*-0\.5"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOOT", mu = nan }}]', InputError, r"contact\.LF_FOOT\.mu"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOOT", radius = -1 }}]', InputError, r"contact\.LF_FOOT\.radius"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOOT", raduis = 1 }}]', ConfigError, r"contact\[0\]\.raduis: .*radius"),
    ('urdf = "{urdf}"\ncontact = [{{ frame = "LF_FOOT", offset = [1, 2] }}]', ConfigError, r"contact\[0\]\.offset"),
    ('urdf = "{toml}"', IdynError, "not XML"),
)
def test_errors_in_robot_files_are_named(text, kind, says, tmp_path):
    path = tmp_path / "mine.toml"
    with pytest.raises(kind, match=says):
        load_robot(str(written(path, text.format(urdf=QUADRUPED.as_posix(), toml=path.as_posix()))))


def test_a_missing_robot_collection_names_the_package_to_install(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("controllers.robot.load.distribution", missing)
    with pytest.raises(ConfigError, match=r"pip install .*\[robots\]'$"):
        urdf_path("example-robot-data:x.urdf", Path())


@every("law", first_is_fast(["pid", *LAWS], 4))
def test_single_settings_can_be_changed(law):
    settings = load("controllers", "quadruped", ControllerSettings)
    other = changed(settings, {"law": law, "selection": "impulse-change", "reference": "sway"})
    assert (kind_of(other.law), other.selection, kind_of(other.reference)) == (law, Selection.IMPULSE_CHANGE, "sway")
    assert changed(settings, {}) == settings
    assert build_controller(other).settings == other


def test_changes_are_merged_table_by_table_and_another_kind_resets_its_settings():
    base = {"law": {"kind": "coulomb", "edges": 8}, "feedback": {"kp": 1.0, "kd": 2.0}, "mu": None}
    assert merged(base, {"feedback": {"kd": 3.0}, "mu": 0.5}) == base | {"feedback": {"kp": 1.0, "kd": 3.0}, "mu": 0.5}
    assert merged({"law": "coulomb"}, {"law": {"edges": 6}}) == {"law": {"kind": "coulomb", "edges": 6}}
    assert base["feedback"] == {"kp": 1.0, "kd": 2.0}
    settings = changed(load("controllers", "quadruped", ControllerSettings), {"law": {"kind": "coulomb", "edges": 8}})
    assert changed(settings, {"law": {"max_pivots": 9}}).law == CoulombSettings(edges=8, max_pivots=9)
    assert changed(settings, {"law": "coulomb"}).law == CoulombSettings(edges=8)
    assert changed(settings, {"law": "no-slip"}).law == NoSlipSettings()
    with pytest.raises(ConfigError, match=r"law\.edges: no such setting of 'no-slip'; it belongs to coulomb"):
        changed(settings, {"law": {"kind": "no-slip", "edges": 8}})


@every("name", first_is_fast(["quadruped", "a1", "go2"]))
@every("law", [{"kind": "coulomb", "edges": 8, "circumscribed": True}, {"kind": "sensed", "delay": 2}, "pid"])
def test_a_controller_from_a_snapshot_has_the_same_settings(law, name):
    changes = {"law": law, "contact": {"source": {"kind": "fused", "early": 0.02}, "terrain": {"kind": "slope", "angle": 0.1}}}
    controller = load_controller(name, changes)
    again = controller_from_snapshot(json.loads(json.dumps(controller.snapshot())))
    assert (again.settings, again.snapshot()) == (controller.settings, controller.snapshot())


# -- sections of one file ----------------------------------------------------------------------------------------------


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


def test_the_sections_of_a_file_name_one_another_or_another_file(tmp_path):
    plan = load_plan(str(written(tmp_path / "one.toml", ONE_FILE)))
    assert (plan.settings.duration, plan.controller.feedback.kp) == (1.0, 123.0)
    assert build_controller(plan.controller).robot.spheres.keys == ("FL_FOOT",)
    text = ONE_FILE.replace("[controller.feedback]", '[controller]\nrobot = "go2"\n\n[controller.feedback]')
    controller = load("controllers", str(written(tmp_path / "one.toml", text)), ControllerSettings)
    assert (controller.robot, controller.feedback.kp) == ("go2", 123.0)


@every_row(
    ("kp = 123.0", "kpp = 123.0", "one.toml.controller.feedback.kpp"),
    ("laws", "law", "one.toml.experiment.law"),
    ("[experiment]", "[server]", "one.toml.experiment"),
    ("[robot]", "[robots]", "experiments.one.robots"),
)
def test_an_error_names_the_section(before, after, where, tmp_path):
    with pytest.raises(ConfigError, match=f"^{where}: "):
        load_plan(str(written(tmp_path / "one.toml", ONE_FILE.replace(before, after))))


# -- terrains ----------------------------------------------------------------------------------------------------------


GROUNDS = {
    "flat": {"kind": "flat"},
    "slope": {"kind": "slope", "angle": 0.15},
    "stairs": {"kind": "stairs", "start": 0.05, "rise": 0.03},
    "boxes": {"kind": "boxes", "boxes": [{"center": [1.0, 0.0, 0.3], "size": [0.1, 2.0, 1.0]}]},
    "heightmap": {"kind": "heightmap", "seed": 5, "friction": {"low": 0.4, "seed": 2}},
}


def ground(name, height=0.0):
    return parse(GROUNDS[name], AnyTerrain, "test").build(height)


@pytest.mark.parametrize("robot_name", first_is_fast(["quadruped", "solo12", "go2"]))
@every("name", sorted(GROUNDS))
def test_all_feet_rest_vertically_below_their_place_in_the_stance(name, robot_name):
    robot, stance = load_robot(robot_name)
    terrain = ground(name, -0.2)
    q = resting(robot, stance, terrain)
    contacts = contacts_from_geometry(robot, q, terrain, margin=1.0)
    assert np.abs(contacts.gaps).max() < 1e-9
    centre = contacts.points + robot.spheres.radii[:, None] * contacts.normals
    before = contacts_from_geometry(robot, stance, ground("flat"), margin=1.0)
    np.testing.assert_allclose(centre[:, :2], before.points[:, :2], atol=1e-9)
    np.testing.assert_array_equal(q[3:7], stance[3:7])
    assert q[:2] == pytest.approx(stance[:2], abs=0)


def test_on_flat_ground_the_stance_is_unchanged_and_unreachable_ground_is_an_error():
    robot, stance = load_robot("quadruped")
    assert resting(robot, stance, ground("flat")) is stance
    steep = parse({"kind": "slope", "angle": 1.1}, AnyTerrain, "test").build()
    with pytest.raises(ConfigError, match=r"contact\.terrain: the legs"):
        resting(robot, stance, steep)


@every("name", first_is_fast(["slope", "stairs", "boxes", "heightmap"]))
@pytest.mark.parametrize("law", first_is_fast(["no-slip", "coulomb", "convex"]))
def test_a_robot_stands_on_every_terrain_with_its_weight_on_its_feet(name, law):
    """The controller finds the same ground as the world: forces as predicted, and vertically they carry the robot."""
    plan = load_plan("stand", 0.05)
    plan = with_controller(plan, {"law": law, "contact": {"terrain": GROUNDS[name], "ground": 0.3}})
    run = run_in_process(plan, law, lambda *_: None)
    assert run.summary.modes == {"ok": 1.0}
    assert run.summary.force_error < 1e-6
    assert run.summary.tracking < 1e-6
    robot, _ = load_robot("quadruped")
    c = contacts_from_geometry(robot, run.trace.q[-1], ground(name, 0.3), margin=0.01)
    across = np.cross(c.normals, c.tangents)
    f = run.trace.simulated[-1]
    total = (f[:, :1] * c.normals + f[:, 1:2] * c.tangents + f[:, 2:] * across).sum(axis=0)
    np.testing.assert_allclose(total, [0, 0, 47.088], atol=1e-6)


def test_friction_is_that_of_the_terrain_or_one_of_all_contacts():
    settings = parse({"robot": "quadruped", "contact": {"terrain": GROUNDS["heightmap"]}}, ControllerSettings, "test")
    controller = build_controller(settings)
    contacts = controller.contacts(controller.stance)
    assert len(contacts) == 4
    assert contacts.mu.min() >= 0.4
    settings = parse({"robot": "quadruped", "contact": {"mu": 0.1}}, ControllerSettings, "test")
    controller = build_controller(settings)
    assert (controller.contacts(controller.stance).mu == 0.1).all()
