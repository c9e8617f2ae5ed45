"""The page: one self-contained file with the numbers of the run; and the live page of a running simulation."""

import base64
import json
import multiprocessing
import re
import threading
import urllib.request

import numpy as np
import pytest
from fast import full

from controllers.config.loading import load
from controllers.robot.load import load_robot
from controllers.settings import ControllerSettings
from idyn.errors import ConfigError
from sim_harness.commands.main import main
from sim_harness.measure.trace import TraceWriter
from sim_harness.run.experiment import CONTROLLER, TRACE, run_in_process
from sim_harness.run.logs import logged_runs
from sim_harness.run.plan import load_plan
from sim_harness.view import page as page_module
from sim_harness.view.film import film_of
from sim_harness.view.live import LiveView
from sim_harness.view.page import page_of
from sim_harness.view.runs import read_run, read_runs


def quiet(label, ticks):
    pass


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


def test_a_saved_run_is_read_unchanged(runs):
    scenes = read_runs(runs)
    assert [scene.label for scene in scenes] == ["one", "two"]
    (one,) = read_runs(runs / "one")
    np.testing.assert_array_equal(one.trace.q, scenes[0].trace.q)
    assert one.controller.robot.urdf_sha256 == load_robot("quadruped")[0].urdf_sha256
    assert one.trace.modes == ("ok",)


def test_a_log_shows_the_same_motion_and_notes_what_it_lacks(runs):
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


def test_the_page_needs_no_other_files(runs):
    page = page_of("a < b", read_runs(runs / "one"))
    assert "<title>a &lt; b</title>" in page
    assert "<!-- " not in page.split("<script>")[0]
    for tag in re.findall(r"<(?:link|img|script|iframe)\b[^>]*>", page.split("<script>")[0] + page.split("</script>")[-2]):
        assert not re.search(r"(?:src|href)=(?!\"data:)", tag), tag
    assert page.count("</script>") == 3  # library, data, program: none of them ends early


def test_a_folder_without_a_run_is_refused_by_name(tmp_path, runs):
    with pytest.raises(ConfigError, match="expected a log"):
        read_runs(tmp_path)
    (tmp_path / TRACE).write_bytes((runs / "one" / TRACE).read_bytes())
    with pytest.raises(ConfigError, match=CONTROLLER):
        read_runs(tmp_path)


def test_the_command_writes_the_page(tmp_path, runs, capsys):
    page = tmp_path / "walk.html"
    assert main(["view", str(runs), "--out", str(page)]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert len(data_of(page.read_text())["runs"]) == 2
    assert main(["view", str(runs), "--out", str(tmp_path / "no" / "walk.html")]) == 2
    assert "existing folder" in capsys.readouterr().err


def test_simulate_writes_a_run_that_view_shows(tmp_path, capsys):
    out = tmp_path / "stand"
    assert main(["simulate", "stand", "--seconds", "0.05", "--out", str(out)]) == 0
    assert f"idyn view {out}" in capsys.readouterr().out
    assert main(["view", str(out)]) == 0
    assert (out / "view.html").is_file()


@full
def test_without_meshcat_the_report_names_the_package_to_install(make_report, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "LIBRARY", "meshcat/nowhere.js")
    report = make_report(tmp_path, 0.05).read_text()
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


def test_a_second_run_is_shown_with_the_first(tmp_path, runs, capsys):
    page = tmp_path / "both.html"
    assert main(["view", str(runs / "two"), "--with", str(runs / "one"), "--out", str(page)]) == 0
    data = data_of(page.read_text())
    assert [run["label"] for run in data["runs"]] == [f"{runs.name}/two", f"{runs.name}/one"]
    assert data["beside"] == 1
    assert main(["view", str(runs), "--out", str(page)]) == 0
    assert data_of(page.read_text())["beside"] is None
    assert main(["view", str(runs / "two"), "--with", str(tmp_path), "--out", str(page)]) == 2
    assert "expected a log" in capsys.readouterr().err
