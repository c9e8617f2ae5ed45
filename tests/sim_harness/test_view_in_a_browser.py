"""The demo's report in a real browser, from the disk and without a network: the robot moves, and the arrows are there."""

import base64
import io

import numpy as np
import pytest
from browser import opened
from fast import every
from PIL import Image

from sim_harness.view.runs import read_run

pytestmark = pytest.mark.browser

COLOURS = {"world": (232, 89, 12), "predicted": (25, 113, 194)}
SECONDS = 1.0


@pytest.fixture(scope="module")
def folder(make_report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    make_report(folder, SECONDS)
    return folder


@pytest.fixture(scope="module")
def report(folder):
    """The frame with the robot in the opened report, and what the page has asked for and complained of."""
    with opened(folder / "report.html") as (page, requests, errors):
        page.locator("iframe").scroll_into_view_if_needed()
        frame = page.frames[1]
        frame.wait_for_function("typeof run === 'object' && run !== null")
        frame.evaluate("play(false)")
        yield frame, requests, errors


def picture(frame):
    """What three.js draws, without the legend (h, w, 3)."""
    url = frame.evaluate("pointArrows(), viewer.capture_image()")
    return np.array(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB")).astype(int)


def painted(frame, kind):
    """Pixels in the colour of an arrow."""
    return int((np.abs(picture(frame) - COLOURS[kind]).max(axis=2) < 40).sum())


def arrows(frame, kind):
    """Visible arrows' lengths, 0 for the others [m]."""
    return np.array(frame.evaluate(f"pointArrows(), run.arrows.{kind}.map((arrow) => arrow.visible ? arrow.length : 0)"))


def test_the_page_fetches_nothing(report, folder):
    _, requests, errors = report
    assert errors == []
    strangers = [url for url in requests if not url.startswith(("data:", "blob:", "about:"))]
    assert strangers == [(folder / "report.html").as_uri()]


def test_the_robot_moves_as_in_the_trace(report, folder):
    frame, _, _ = report
    first = frame.evaluate("run.label")
    trace = read_run(folder / first).trace
    seen, places = [], []
    for row in (0, 400, 900):
        frame.evaluate(f"show({trace.t[row]})")
        places.append(frame.evaluate("run.bodies[1].getWorldPosition(new THREE.Vector3()).toArray()"))
        x, y, z = trace.q[row, :3]
        np.testing.assert_allclose(places[-1], [x, z, -y], atol=1e-5)  # three.js has y up
        seen.append(picture(frame))
    assert np.linalg.norm(np.subtract(places[2], places[0])) > 0.01
    assert (np.abs(seen[2] - seen[0]).max(axis=2) > 30).mean() > 0.005


@every("kind", ["world", "predicted"])
def test_the_arrows_are_as_long_as_the_forces(report, folder, kind):
    frame, _, _ = report
    label, newtons = frame.evaluate("[run.label, run.newtons]")
    trace = read_run(folder / label).trace
    forces = trace.simulated if kind == "world" else trace.predicted
    for row in (20, 500):
        frame.evaluate(f"show({trace.t[row]})")
        lengths = np.linalg.norm(np.nan_to_num(forces[row]), axis=1) / newtons
        np.testing.assert_allclose(arrows(frame, kind), np.where(lengths > 1e-4, lengths, 0.0), rtol=1e-5)
        assert (lengths > 0.02).sum() >= 2
        assert painted(frame, kind) > 100


@every("kind", ["world", "predicted"])
def test_arrows_can_be_hidden(report, kind):
    frame, _, _ = report
    before = painted(frame, kind)
    frame.locator(f"#show-{kind}").uncheck()
    assert not arrows(frame, kind).any()
    assert painted(frame, kind) < 0.3 * before  # the feet are of a similar orange
    frame.locator(f"#show-{kind}").check()
    assert arrows(frame, kind).any()


def test_pause_slider_and_play_control_the_motion(report):
    frame, _, _ = report
    frame.locator("#time").fill("0.5")
    assert frame.locator("#clock").inner_text() == "0.50 s · ok"
    assert frame.evaluate("[time, playing]") == [0.5, False]
    frame.locator("#speed").select_option("0.02")  # it must not come to its end before the second click, on any machine
    frame.locator("#play").click()
    frame.wait_for_function("time > 0.501")
    frame.locator("#play").click()
    assert frame.evaluate("playing") is False
    frame.locator("#speed").select_option("1")


def test_the_camera_follows_the_base_and_can_be_released(report):
    frame, _, _ = report
    aim = "[viewer.controls.target.x - run.bodies[1].position.x, viewer.controls.target.z + run.bodies[1].position.y]"
    before = frame.evaluate(f"show(0.1), {aim}")
    np.testing.assert_allclose(frame.evaluate(f"show(0.9), {aim}"), before, atol=1e-9)
    frame.locator("#follow").uncheck()
    assert frame.evaluate(f"show(0.1), {aim}") != pytest.approx(before, abs=1e-4)
    frame.locator("#follow").check()


def test_every_law_can_be_chosen(report, folder):
    frame, _, _ = report
    labels = frame.evaluate("data.runs.map((run) => run.label)")
    assert labels == ["no-slip", "coulomb", "cone"]
    frame.locator("#run").select_option(label="cone")
    assert frame.evaluate("run.label") == "cone"
    assert frame.locator("#run-name").inner_text() == "cone"
    trace = read_run(folder / "cone").trace
    frame.evaluate(f"show({trace.t[500]})")
    x, y, z = trace.q[500, :3]
    np.testing.assert_allclose(frame.evaluate("run.bodies[1].position.toArray()"), [x, y, z], atol=1e-5)
