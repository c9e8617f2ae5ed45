"""The view of a run: its page, its film, its curves, the shapes that it draws, and videos."""

import base64
import io
import json
import multiprocessing
import re
import shutil
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pinocchio as pin
import pytest
import trimesh
import urdf
from browser import opened
from cli import fails, prints
from fast import every, every_row, first_is_fast, full
from stands import demo_report, quiet

from controllers.config.loading import find, load
from controllers.contact.ground import FlatSettings, HeightmapSettings, SlopeSettings, StairsSettings
from controllers.contact.source import ContactSettings
from controllers.robot.load import RobotSettings, load_robot, urdf_path
from controllers.settings import ControllerSettings
from idyn import ConfigError, Description, Flat, InputError, Robot
from idyn.types import Array
from sim_harness.commands.main import main
from sim_harness.measure.trace import TraceWriter
from sim_harness.run.experiment import CONTROLLER, TRACE, run_in_process
from sim_harness.run.logs import logged_runs
from sim_harness.run.plan import load_plan
from sim_harness.shapes import Mesh, load_meshes, look_of, thinned
from sim_harness.view import page as page_module
from sim_harness.view.film import film_of, ground_of, poses_of
from sim_harness.view.live import LiveView
from sim_harness.view.page import POINTS, extremes, intervals, page_of, panels_of, read_run, read_runs
from sim_harness.view.video import HEIGHT, RATE, WIDTH, Video


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a short walk under two laws, the first with its log."""
    folder = tmp_path_factory.mktemp("runs")
    plan = load_plan("trot", 0.3)
    for label, law in (("one", "coulomb"), ("two", "cone")):
        (folder / label).mkdir()
        log = folder / label / "log.mcap" if label == "one" else None
        run_in_process(plan, law, quiet, log=log).save(folder / label)
    return folder


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
    return json.loads(text)


def numbers(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_a_saved_run_is_read_unchanged_and_its_log_shows_the_same_motion(runs):
    scenes = read_runs(runs)
    assert [scene.label for scene in scenes] == ["one", "two"]
    (one,) = read_runs(runs / "one")
    np.testing.assert_array_equal(one.trace.q, scenes[0].trace.q)
    assert one.controller.robot.urdf_sha256 == load_robot("quadruped")[0].urdf_sha256
    assert one.trace.modes == ("ok",)
    (scene,) = read_runs(runs / "one" / "log.mcap")
    np.testing.assert_array_equal(scene.trace.q, read_run(runs / "one").trace.q)
    assert not film_of(scene.controller.robot, scene.controller.terrain, scene.trace).known
    assert logged_runs(runs / "one" / "log.mcap")[0].controller.settings == scene.controller.settings


def test_the_page_contains_the_motion(runs):
    data = data_of(page_of("walk", read_runs(runs)))
    assert [run["label"] for run in data["runs"]] == ["one", "two"]
    assert len(data["robots"]) == 1
    scene = read_run(runs / "two")
    controller = scene.controller
    film = film_of(controller.robot, controller.terrain, scene.trace, mu=controller.settings.contact.mu)
    for name in ("t", "poses", "points", "normals", "friction", "centre", "world", "predicted"):
        np.testing.assert_array_equal(numbers(data["runs"][1]["film"][name]), getattr(film, name).astype("<f4").ravel())
    weight = 4.8 * 9.81
    assert data["runs"][0]["weight"] == pytest.approx(weight)


def test_a_folder_without_a_run_is_refused_by_name(tmp_path, runs):
    with pytest.raises(ConfigError, match="expected a log"):
        read_runs(tmp_path)
    (tmp_path / TRACE).write_bytes((runs / "one" / TRACE).read_bytes())
    with pytest.raises(ConfigError, match=CONTROLLER):
        read_runs(tmp_path)


@full
def test_the_command_writes_the_page_also_of_a_second_run_beside_the_first(tmp_path, runs, capsys):
    page = tmp_path / "walk.html"
    assert "2 runs" in prints(capsys, "view", str(runs), "--out", str(page))
    assert len(data_of(page.read_text())["runs"]) == 2
    assert "existing folder" in fails(capsys, "view", str(runs), "--out", str(tmp_path / "no" / "walk.html"))
    page = tmp_path / "both.html"
    assert main(["view", str(runs / "two"), "--with", str(runs / "one"), "--out", str(page)]) == 0
    data = data_of(page.read_text())
    assert [run["label"] for run in data["runs"]] == [f"{runs.name}/two", f"{runs.name}/one"]
    assert data["beside"] == 1
    assert main(["view", str(runs), "--out", str(page)]) == 0
    assert data_of(page.read_text())["beside"] is None
    assert "expected a log" in fails(capsys, "view", str(runs / "two"), "--with", str(tmp_path), "--out", str(page))


def test_simulate_writes_a_run_that_view_shows(tmp_path, capsys):
    out = tmp_path / "stand"
    assert f"idyn view {out}" in prints(capsys, "simulate", "stand", "--seconds", "0.05", "--out", str(out))
    assert main(["view", str(out)]) == 0
    assert (out / "view.html").is_file()


@full
def test_without_meshcat_the_report_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "LIBRARY", "meshcat/nowhere.js")
    report = demo_report(tmp_path, 0.05).read_text()
    assert re.search(r"pip install .*\[viz\]&#x27;", report)
    assert "<iframe" not in report


@full
def test_a_run_continues_when_its_view_is_killed(caplog):
    robot, stance = load_robot("quadruped")
    trace = TraceWriter(robot, 1)
    trace.state(0.0, stance, np.zeros(robot.nv), 0.0)
    trace.command(np.zeros(robot.na), "ok", np.nan)
    trace.simulated((), np.zeros((0, 3)), 0)
    with LiveView(load("controllers", "quadruped", ControllerSettings)) as view:
        (process,) = (child for child in multiprocessing.active_children() if child.name == "idyn view")
        process.kill()
        process.join()
        while "the live view ended" not in caplog.text:
            view.watch("run", trace)
        view.watch("run", trace)
    assert caplog.text.count("the live view ended") == 1


@full
def test_a_live_view_shows_a_running_simulation():
    """Through its own process and real sockets: the page, then frames that grow no older."""
    robot, stance = load_robot("quadruped")
    trace = TraceWriter(robot, 3)
    settings = load("controllers", "quadruped", ControllerSettings)
    force = np.array([[1.0, 2.0, 3.0]])
    got = []

    def listen(url):
        with urllib.request.urlopen(url + "frames") as events:
            for line in events:
                if line.startswith(b"data: "):
                    got.append(json.loads(line[6:]))

    with LiveView(settings) as view:
        data = data_of(urllib.request.urlopen(view.url).read().decode())
        assert data["live"] is True
        listener = threading.Thread(target=listen, args=(view.url,))
        listener.start()
        for tick in range(3):
            q = stance.copy()
            q[0] = 0.1 * tick
            if tick == 1:
                q[:] = np.nan  # never arrives
            trace.state(0.001 * tick, q, np.zeros(robot.nv), 0.0)
            trace.command(np.zeros(robot.na), "ok", np.nan)
            trace.predicted("RF_FOOT", (4.0, 0.0, 0.0))
            trace.simulated(("RF_FOOT",), force, 0)
            wanted = 0.001 * tick if tick != 1 else 0.0
            while not got or got[-1]["t"] < wanted:
                view.watch("run", trace)
            if tick == 1:
                for _ in range(1000):
                    view.watch("run", trace)
    listener.join()
    first, last = got[0], got[-1]
    assert (first["label"], first["mode"], first["t"], last["t"]) == ("run", "ok", 0.0, 0.002)
    np.testing.assert_allclose(np.array(last["poses"]).reshape(-1, 7)[1, :3], [0.2, 0.0, stance[2]], atol=1e-5)
    place = 3 * robot.spheres.keys.index("RF_FOOT")
    np.testing.assert_allclose(first["world"][place : place + 3], [2.0, 3.0, 1.0], atol=1e-5)  # n is z, s is x, n × s is y
    np.testing.assert_allclose(first["predicted"][place : place + 3], [0.0, 0.0, 4.0], atol=1e-5)


@pytest.fixture(scope="module")
def trot():
    """Robot, terrain, and the trace of a trot on hills."""
    plan = load_plan("trot-heightmap", 0.4)
    run = run_in_process(plan, "coulomb", quiet)
    contact = plan.controller.contact
    return load_robot(plan.controller.robot)[0], contact.terrain.build(contact.ground), run.trace


@full
def test_the_worlds_forces_move_the_robot_as_it_moved(trot):
    """Σ f = m (a − g) at the centre of mass, of an acceleration that Pinocchio finds from the trace."""
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace, rate=1000.0)
    assert len(film.t) == len(trace)
    model, data = model_of(robot)
    for i in range(0, len(trace) - 1, 7):
        a = (trace.v[i + 1] - trace.v[i]) / (trace.t[i + 1] - trace.t[i])
        pin.centerOfMass(model, data, trace.q[i], trace.v[i], a)
        np.testing.assert_allclose(film.world[i].sum(axis=0), data.mass[0] * (data.acom[0] + [0, 0, 9.81]), atol=1e-6)


def test_predicted_forces_are_shown_with_simulated_ones(trot):
    """On the ground the law is exact: the same vectors, and nothing at feet in the air."""
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    np.testing.assert_allclose(film.predicted, film.world, atol=1e-3)
    assert film.known
    lifted = film.points[:, :, 2] - terrain.height(film.points.reshape(-1, 3)).reshape(film.points.shape[:2]) > 0.003
    assert lifted.any()
    np.testing.assert_allclose(film.world[lifted], 0.0, atol=1e-12)


def test_centre_of_mass_and_normals_match_pinocchio_and_the_ground(trot):
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    model, data = model_of(robot)
    for row, centre in zip(np.searchsorted(trace.t, film.t - 1e-9), film.centre, strict=True):
        np.testing.assert_allclose(centre, pin.centerOfMass(model, data, trace.q[row]), atol=1e-12)
    step = 1e-4  # the normal is the gradient of the distance
    for k in range(3):
        ahead, behind = (terrain.query((film.points + s * step * np.eye(3)[k]).reshape(-1, 3))[0] for s in (1, -1))
        slopes = (np.asarray(ahead) - behind).reshape(film.points.shape[:2]) / (2 * step)
        np.testing.assert_allclose(film.normals[..., k], slopes, atol=0.02)


def test_friction_is_that_of_the_controller_the_ground_or_else_the_robot(trot):
    robot, terrain, trace = trot
    film = film_of(robot, terrain, trace)
    np.testing.assert_allclose(film.friction[3], terrain.friction.at(film.points[3]))
    assert (film_of(robot, Flat(), trace).friction == robot.spheres.mu).all()
    assert (film_of(robot, terrain, trace, mu=0.25).friction == 0.25).all()
    assert np.isfinite(film_of(robot, terrain, trace, mu=np.inf).friction).all()


def model_of(robot):
    model = pin.buildModelFromXML(robot.description.urdf, *[pin.JointModelFreeFlyer()] * robot.floating)
    return model, model.createData()


@every("name", ["quadruped", "arm", "solo12", "a1", "go2"])
def test_poses_match_pinocchio(name):
    robot, stance = load_robot(name)
    model, data = model_of(robot)
    q = robot.integrate(stance, np.random.default_rng(1).normal(0.0, 0.5, robot.nv))
    pin.forwardKinematics(model, data, q)
    for placement, pose in zip(data.oMi, poses_of(robot, q), strict=True):
        np.testing.assert_allclose(pin.XYZQUATToSE3(pose).homogeneous, placement.homogeneous, atol=1e-12)


def test_a_diverged_world_is_shown_up_to_the_divergence(trot):
    robot, terrain, trace = trot
    q = trace.q.copy()
    q[101] = 1e200
    q[102:] = np.nan
    film = film_of(robot, terrain, msgspec.structs.replace(trace, q=q))
    assert film.t[-1] == trace.t[100]
    assert np.isfinite(film.poses).all()
    with pytest.raises(InputError, match="first configuration"):
        film_of(robot, terrain, msgspec.structs.replace(trace, q=np.full_like(q, np.nan)))


@every_row(
    FlatSettings(),
    SlopeSettings(angle=-0.3),
    StairsSettings(start=0.1, depth=0.13, rise=0.04, steps=4),
    StairsSettings(start=-5.0, steps=40, depth=0.25),
    HeightmapSettings(seed=3, hills=50, bump=0.1),
)
def test_the_ground_is_where_the_feet_meet_it(terrain):
    """All its vertices have the distance 0, and each riser stands upright."""
    contact = ContactSettings(ground=0.07, terrain=terrain)
    ground = ground_of(contact, np.array([[0.0, 0.0, 0.3], [0.5, -0.3, 0.3]]))
    assert ground.x[0] <= -0.8 + 1e-9
    assert ground.x[-1] >= 1.3 - 1e-9
    assert ground.z.shape == (len(ground.x), len(ground.y))
    assert (np.diff(ground.x) >= 0).all()
    x, y = np.meshgrid(ground.x, ground.y, indexing="ij")
    distances, _ = terrain.build(0.07).query(np.stack([x, y, ground.z], axis=-1).reshape(-1, 3))
    np.testing.assert_allclose(distances, 0.0, atol=1e-9)
    if isinstance(terrain, StairsSettings):
        risers = np.flatnonzero(np.diff(ground.x) == 0)
        expected = terrain.start + terrain.depth * np.arange(terrain.steps)
        np.testing.assert_allclose(ground.x[risers], expected[(expected > ground.x[0]) & (expected < ground.x[-1])])
        np.testing.assert_allclose(ground.z[risers + 1] - ground.z[risers], terrain.rise)
        np.testing.assert_allclose(np.diff(ground.z, axis=0)[np.diff(ground.x) > 0], 0.0, atol=1e-12)


def test_curves_are_those_of_the_trace_with_the_limits_of_the_urdf(runs):
    run = read_run(runs / "one")
    panels = {panel.title: panel for panel in panels_of(run.controller, run.trace)}
    assert list(panels) == ["torque", "normal force", "model mismatch", "time"]
    torque, force = panels["torque"], panels["normal force"]
    np.testing.assert_array_equal(torque.lines["applied"], run.trace.tau)
    joints = ElementTree.fromstring(run.controller.robot.description.urdf).iter("joint")
    efforts = {joint.get("name"): float(limit.get("effort")) for joint in joints if (limit := joint.find("limit")) is not None}
    np.testing.assert_array_equal(torque.bounds, [[-efforts[name], efforts[name]] for name in torque.choices])
    for k, place in enumerate(force.choices):
        column = run.trace.places.index(place)
        np.testing.assert_array_equal(force.lines["world"][:, k], run.trace.simulated[:, column, 0])
        np.testing.assert_array_equal(force.lines["predicted"][:, k], run.trace.predicted[:, column, 0])
    motion = panels["model mismatch"].lines["motion [g]"]
    assert np.isnan(motion[0])  # nothing to compare yet
    assert (motion[2:] >= 0).all()
    np.testing.assert_allclose(panels["time"].bounds, [[-np.inf, 1.0]])


def test_a_log_has_the_mismatch_of_its_run_and_panels_without_values_are_left_out(runs):
    """Both are the `reality` of the replies."""
    (logged,) = read_runs(runs / "one" / "log.mcap")
    np.testing.assert_array_equal(logged.trace.mismatch, read_run(runs / "one").trace.mismatch)
    run = read_run(runs / "one")
    unknown = np.full(len(run.trace), np.nan)
    old = msgspec.structs.replace(run.trace, mismatch=np.zeros((0, 2)), round_trip=unknown, solve_time=unknown)
    assert [panel.title for panel in panels_of(run.controller, old)] == ["torque", "normal force"]


@every("count", [1, POINTS, POINTS + 1, 7 * POINTS - 3])
def test_a_peak_of_one_tick_is_kept(count):
    values = np.random.default_rng(count).normal(size=(count, 2))
    values[count // 2] = [50.0, -60.0]
    starts = intervals(count)
    low, high = extremes(values, starts)
    assert len(low) <= POINTS
    interval = int(np.searchsorted(starts, count // 2, side="right")) - 1
    assert (high[interval, 0], low[interval, 1]) == (50.0, -60.0)
    assert np.nanmax(high[:, 1]) == values[:, 1].max()


def test_missing_values_leave_gaps():
    values = np.arange(3.0 * POINTS)[:, None]
    values[3:6] = np.nan
    values[7] = np.nan
    low, high = extremes(values, intervals(len(values)))
    np.testing.assert_array_equal(low[:3, 0], [0.0, np.nan, 6.0])
    np.testing.assert_array_equal(high[:3, 0], [2.0, np.nan, 8.0])


@full
@every(("experiment", "known"), first_is_fast([("trot", True), ("trot-quadruped", False)]))
def test_the_force_of_a_touchdown_is_predicted_only_if_the_contact_is_known(experiment, known):
    """As docs/how-to/view.md explains: switches report a contact with the state after the touchdown."""
    trace = run_in_process(load_plan(experiment, 0.75), "coulomb", quiet).trace
    simulated, predicted = (np.nan_to_num(f[..., 0]) > 0 for f in (trace.simulated, trace.predicted))
    touchdowns = simulated[1:] & ~simulated[:-1]
    assert touchdowns.any()
    assert (predicted[1:][touchdowns] == known).all()


def folders_of(name):
    return list(urdf_path(load("robots", name, RobotSettings).urdf, find("robots", name).parent).parents)


def models_of(robot, folders):
    """Pinocchio's own model and geometry of the visuals."""
    model, _ = model_of(robot)
    urdf, folders = robot.description.urdf, list(map(str, folders))
    return model, pin.buildGeomFromUrdfString(model, urdf, pin.GeometryType.VISUAL, package_dirs=folders)


@every("name", ["quadruped", "arm"])
def test_primitives_are_where_pinocchio_places_them(name):
    robot, stance = load_robot(name)
    look = look_of(robot, folders_of(name))
    model, geometry = models_of(robot, folders_of(name))
    data, places = model.createData(), geometry.createData()
    q = robot.integrate(stance, np.random.default_rng(2).normal(0.0, 0.3, robot.nv))
    pin.updateGeometryPlacements(model, data, geometry, places, q)
    assert (look.note, len(look.shapes)) == ("", geometry.ngeoms)
    for shape, item, place in zip(look.shapes, geometry.geometryObjects, places.oMg, strict=True):
        ours = data.oMi[shape.joint] * pin.XYZQUATToSE3(shape.placement)
        np.testing.assert_allclose(ours.homogeneous, place.homogeneous, atol=1e-12)
        np.testing.assert_allclose(shape.colour, item.meshColor[:3], atol=1e-3)
        item.geometry.computeLocalAABB()
        box = item.geometry.aabb_local
        extent = {"box": lambda s: s, "sphere": lambda s: [2 * s[0]] * 3, "cylinder": lambda s: [2 * s[0], 2 * s[0], s[1]]}
        np.testing.assert_allclose(extent[shape.kind](shape.size), box.max_ - box.min_, atol=1e-12)


@full
@pytest.mark.parametrize("name", ["solo12", "a1", "go2"])
def test_meshes_have_the_extents_of_pinocchios(name):
    """Shape by shape in the joint's frame: the same extents, and no triangle longer than they are."""
    robot, _ = load_robot(name)
    look = look_of(robot, folders_of(name))
    _, geometry = models_of(robot, folders_of(name))
    assert look.note == ""
    meshes = [item for item in geometry.geometryObjects if Path(item.meshPath).is_file()]
    theirs = {joint: [] for joint in {item.parentJoint for item in meshes}}
    for item in meshes:
        theirs[item.parentJoint].append([item.placement.act(v) for v in item.geometry.vertices()])
    for joint, parts in theirs.items():
        shapes = [shape for shape in look.shapes if shape.joint == joint and shape.kind == "mesh"]
        ours = np.vstack([[pin.XYZQUATToSE3(s.placement).act(v) for v in s.mesh.vertices] for s in shapes])
        expected = np.vstack(parts)
        np.testing.assert_allclose(ours.min(axis=0), expected.min(axis=0), atol=1e-3)
        np.testing.assert_allclose(ours.max(axis=0), expected.max(axis=0), atol=1e-3)


@full
def test_equal_mesh_files_are_stored_once():
    shapes = look_of(load_robot("a1")[0], folders_of("a1")).shapes
    assert len({id(shape.mesh) for shape in shapes if shape.mesh is not None}) < sum(shape.kind == "mesh" for shape in shapes)


@full
def test_a_file_of_several_materials_keeps_its_colours():
    """The black rubber and the white shell of a go2, whose URDF calls everything white."""
    shapes = look_of(load_robot("go2")[0], folders_of("go2")).shapes
    brightness = [max(shape.colour) for shape in shapes]
    assert min(brightness) < 0.1
    assert max(brightness) > 0.9


def test_without_meshes_or_visuals_collision_shapes_or_sticks_are_drawn():
    look = look_of(load_robot("a1")[0], [])
    assert {shape.kind for shape in look.shapes} <= {"box", "sphere", "cylinder"}
    assert len(look.shapes) > 10
    assert "visual shapes" in look.note
    robot, _ = load_robot("solo12")  # all its shapes are meshes
    look = look_of(robot, [])
    assert "collision shapes" in look.note
    assert len(look.shapes) == 3 * 4 + 4  # to the joints of each leg, and to its foot
    tips = [pin.XYZQUATToSE3(s.placement).act(np.array([0, 0, s.size[1] / 2])) for s in look.shapes]
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    ends = [np.array(place.translation) for place in list(model.jointPlacements)[2:]] + list(robot.spheres.offsets)
    np.testing.assert_allclose(tips, ends, atol=1e-12)
    capsule = urdf.touching('cylinder radius="0.1" length="0.5"', (0, 0.1, 0))
    look = look_of(Robot(Description(urdf=urdf.robot("capsule", urdf.link("a", 1.0, 1.0, more=capsule)))), [])
    assert look.note == "the URDF has no visual shapes"
    (shape,) = look.shapes
    assert (shape.kind, shape.size, shape.joint) == ("cylinder", (0.1, 0.5), 1)
    np.testing.assert_allclose(shape.placement, [0, 0.1, 0, 0, 0, 0, 1])


@full
def test_thinning_keeps_the_shape():
    """A ball of 80 000 triangles: still a ball of the same size, turned the same way out."""
    ball = trimesh.creation.icosphere(subdivisions=6, radius=0.1)
    mesh = Mesh(vertices=np.array(ball.vertices), triangles=np.array(ball.faces))
    thin = thinned(mesh, 5000)
    assert 1000 < len(thin.triangles) <= 5000
    again = trimesh.Trimesh(thin.vertices, thin.triangles)
    assert again.volume == pytest.approx(ball.volume, rel=0.03)
    np.testing.assert_allclose(np.linalg.norm(thin.vertices, axis=1), 0.1, atol=2e-3)
    assert thinned(mesh, 10**6) is mesh


def test_a_mirrored_mesh_keeps_outward_faces_and_an_invalid_file_is_named(tmp_path):
    path = tmp_path / "box.stl"
    trimesh.creation.box((0.1, 0.2, 0.3)).apply_translation((1.0, 0.0, 0.0)).export(path)
    ((mesh, colour),) = load_meshes(path, np.array([-1.0, 1.0, 2.0]))
    assert colour is None
    again = trimesh.Trimesh(mesh.vertices, mesh.triangles)
    assert again.volume == pytest.approx(0.012)
    np.testing.assert_allclose(again.centroid, [-1.0, 0.0, 0.0], atol=1e-9)
    path = tmp_path / "torn.stl"
    path.write_bytes(b"solid nothing")
    with pytest.raises(ConfigError, match=r"torn\.stl"):
        load_meshes(path, np.ones(3))


FRAMES = 18
MIDDLE = (slice(150, 560), slice(420, 860))  # part of the picture between the table and the plots


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trot, recorded until shortly after the time of its last frame."""
    recorded = tmp_path_factory.mktemp("run")
    run_in_process(load_plan("trot", (FRAMES - 0.5) / RATE), "coulomb", lambda *_: None).save(recorded)
    return recorded


def shot(page: Any, time: float) -> Array:
    """What a browser shows of a page at a time, drawn when the tab is idle (h, w, 3)."""
    from PIL import Image  # noqa: PLC0415  (extra)

    page.evaluate(f"show({time})")
    page.wait_for_timeout(500)
    return np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(float)


@pytest.mark.browser
@pytest.mark.parametrize("suffix", ["mp4", "webm"])
def test_the_robot_moves_in_the_video_as_on_the_page(recorded: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all frames, the one that is due is the most similar to the page at its time. It walks from 0.3 s on."""
    import av  # noqa: PLC0415  (extra)

    target = recorded / f"run.{suffix}"
    assert f"{target}: {FRAMES} frames" in prints(capsys, "view", str(recorded), "--video", str(target))
    with av.open(str(target)) as video:
        decoded = list(video.decode(video=0))
    assert [round(frame.time * RATE, 3) for frame in decoded] == list(range(FRAMES))
    frames = [frame.to_ndarray(format="rgb24").astype(float) for frame in decoded]
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH, 3)}
    assert (np.abs(frames[15] - frames[2])[MIDDLE].max(axis=2) > 30).mean() > 0.005  # as in test_view_in_a_browser
    with opened(recorded / "view.html") as (page, _, errors):
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.wait_for_function("typeof run === 'object' && run !== null")
        page.evaluate("play(false)")
        for number in (9, 12, 15):
            expected = shot(page, number / RATE)[MIDDLE]
            apart = [np.abs(frame[MIDDLE] - expected).mean() for frame in frames]
            assert int(np.argmin(apart)) == number
        assert errors == []


def test_another_kind_of_file_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(runs / "two"), "--video", str(runs / "run.gif")]) == 2
    assert "--video: expected a file *.mp4 or *.webm in an existing folder, got " in capsys.readouterr().err
    assert "in an existing folder" in fails(capsys, "view", str(runs / "two"), "--video", str(runs / "no" / "run.mp4"))


@every("package", ["av", "playwright.sync_api", "PIL"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"--video: a video needs the package .* pip install .*\[video\]"):
        Video(tmp_path / "run.mp4")


@pytest.mark.browser
def test_a_missing_browser_is_named_with_what_installs_it(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(recorded))
    assert shutil.which("chromium") is None
    with pytest.raises(ConfigError, match=r"--video: expected one of chromium, .* apt install chromium"):
        Video(recorded / "run.mp4")
