"""The view of a run in a real browser, from the disk and without a network."""

import base64
import io

import numpy as np
import pytest
from browser import opened
from fast import every
from PIL import Image
from stands import demo_report, quiet

from sim_harness.commands.main import main
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.view.page import read_run

pytestmark = pytest.mark.browser

COLOURS = {"world": (232, 89, 12), "predicted": (25, 113, 194)}
SECONDS = 1.0
MU = 0.6  # friction coefficient that the controller assumes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    demo_report(folder, SECONDS)
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


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Runs of two laws, short enough that each interval of a curve is one tick."""
    two_runs = tmp_path_factory.mktemp("runs")
    for law in ("coulomb", "cone"):
        (two_runs / law).mkdir()
        run_in_process(with_controller(load_plan("trot", 0.9), {"contact": {"mu": MU}}), law, quiet).save(two_runs / law)
    return two_runs


@pytest.fixture(scope="module")
def page(two_runs):
    """The page of both runs, paused. It has no errors in the end."""
    assert main(["view", str(two_runs)]) == 0
    with opened(two_runs / "view.html") as (page, _, errors):
        page.wait_for_function("typeof run === 'object' && run !== null")
        page.evaluate("play(false)")
        page.locator("#run").select_option(label="coulomb")
        yield page
        assert errors == []


def plot(page, title):
    return page.locator("#plots section").filter(has=page.locator("b", has_text=title))


def values(page, title):
    """The numbers of a plot's legend by label."""
    texts = plot(page, title).locator("p span").all_inner_texts()
    pairs = (text[2:].rsplit(" ", 1) for text in texts)
    return {label: float(value.replace("−", "-")) if value != "–" else np.nan for label, value in pairs}


@every("row", [300, 640])
def test_plots_show_the_values_at_the_time(page, two_runs, row):
    trace = read_run(two_runs / "coulomb").trace
    page.evaluate(f"show({trace.t[row]})")
    plot(page, "torque").locator("select").select_option(index=4)
    plot(page, "normal force").locator("select").select_option(label=trace.places[1])
    assert values(page, "torque") == {"applied": pytest.approx(trace.tau[row, 4], rel=6e-3)}
    force = values(page, "normal force")
    assert force["world"] == pytest.approx(trace.simulated[row, 1, 0], rel=6e-3, nan_ok=True)
    assert force["predicted"] == pytest.approx(trace.predicted[row, 1, 0], rel=6e-3, nan_ok=True)
    assert values(page, "model mismatch")["motion [g]"] == pytest.approx(trace.mismatch[row, 0], rel=6e-3)
    assert values(page, "time")["controller"] == pytest.approx(1e3 * trace.solve_time[row], rel=6e-3)


def test_the_pointer_shows_values_and_a_click_moves_the_time(page, two_runs):
    trace = read_run(two_runs / "coulomb").trace
    page.evaluate("show(0)")
    canvas = plot(page, "torque").locator("canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 40)
    moment = page.evaluate("plots.hover")
    assert 0.3 < moment < 0.6
    joint = page.evaluate("plots.plots[0].choice")
    row = int(np.searchsorted(trace.t, moment + 1e-6, side="right")) - 1
    assert values(page, "torque")["applied"] == pytest.approx(trace.tau[row, joint], rel=6e-3)
    assert page.evaluate("time") == 0
    page.mouse.down()
    page.mouse.up()
    assert page.evaluate("time") == pytest.approx(moment)
    assert float(page.locator("#time").input_value()) == pytest.approx(moment)
    page.mouse.move(10, 600)
    assert page.evaluate("plots.hover") is None


def test_plots_can_be_hidden(page):
    before = page.locator("#pane").bounding_box()["width"]
    page.locator("#show-plots").uncheck()
    assert not page.locator("#plots").is_visible()
    assert page.locator("#pane").bounding_box()["width"] > before + 300
    page.locator("#show-plots").check()
    assert page.locator("#plots").is_visible()


def switch(page, name, on=True):
    page.locator(f"#show-{name}").set_checked(on)


def test_cones_stand_on_contacts_that_carry_and_open_by_the_friction(page, two_runs):
    run = read_run(two_runs / "coulomb")
    switch(page, "cones")
    for row in (300, 640):  # multiples of a frame
        page.evaluate(f"show({run.trace.t[row]})")
        cones = page.evaluate("run.marks.cones.map((cone) => [cone.visible, cone.scale.x, cone.position.toArray()])")
        simulated, predicted = (np.nan_to_num(f[row]).any(axis=1) for f in (run.trace.simulated, run.trace.predicted))
        np.testing.assert_array_equal([visible for visible, _, _ in cones], simulated | predicted)
        shown = [cone for cone in cones if cone[0]]
        assert 2 <= len(shown) <= 4
        for _, mu, (_, _, z) in shown:
            assert mu == pytest.approx(MU)
            assert z == pytest.approx(0.0, abs=2e-3)
    vertices = np.reshape(page.evaluate("[...run.marks.cones[0].geometry.attributes.position.array]"), (-1, 3))
    radii, heights = np.linalg.norm(vertices[:, :2], axis=1), vertices[:, 2]
    np.testing.assert_allclose(radii, heights, atol=1e-7)  # 45° before it is scaled by the friction coefficient
    assert (heights.min(), heights.max() > 0.05) == (pytest.approx(0.0, abs=1e-7), True)
    switch(page, "cones", on=False)
    assert not any(page.evaluate("run.marks.cones.map((cone) => cone.visible)"))


def test_footholds_are_where_feet_touched_down(page, two_runs):
    trace = read_run(two_runs / "coulomb").trace
    frames = np.arange(0, len(trace), 20)
    carries = np.nan_to_num(trace.simulated).any(axis=2)
    switch(page, "footholds")
    page.evaluate(f"show({trace.t[-1]})")
    found = page.evaluate("run.marks.recent(run.frame)")
    for place in range(4):
        since = [one["frame"] for one in found if one["place"] == place]
        assert since, "each foot stands somewhere"
        assert since == sorted(since)
        for frame in since:
            row = frames[frame]
            assert carries[row, place]
            assert frame == 0 or not carries[row - 20, place]
    assert page.evaluate("run.marks.footholds.filter((disc) => disc.visible).length") == len(found)
    assert len(found) > 4, "some feet have stepped"
    page.evaluate("show(0)")
    assert page.evaluate("run.marks.footholds.filter((disc) => disc.visible).length") == 4
    switch(page, "footholds", on=False)


def test_path_and_centre_of_mass_follow_the_motion(page, two_runs):
    run = read_run(two_runs / "coulomb")
    switch(page, "path")
    switch(page, "centre")
    page.evaluate(f"show({run.trace.t[600]})")
    visible, drawn, points, centre = page.evaluate(
        "[run.marks.path.visible && run.marks.centre.visible, run.marks.path.geometry.drawRange.count,"
        " [...run.marks.path.geometry.attributes.position.array], run.marks.centre.position.toArray()]"
    )
    assert visible
    assert drawn == 31
    np.testing.assert_allclose(np.reshape(points, (-1, 3))[:drawn], run.trace.q[:601:20, :3], atol=1e-5)
    robot = run.controller.robot
    (rotations, origins), bodies = robot.place(run.trace.q[600]), robot.bodies
    centres = np.einsum("bij,bj->bi", rotations, bodies.centres) + origins
    np.testing.assert_allclose(centre, bodies.masses[1:] @ centres[1:] / robot.total_mass, atol=1e-5)
    switch(page, "path", on=False)
    switch(page, "centre", on=False)


def test_a_second_run_is_transparent_and_its_curves_are_dashed(page, two_runs):
    both = [read_run(two_runs / label).trace for label in ("coulomb", "cone")]
    page.locator("#with").select_option(label="cone")
    plot(page, "torque").locator("select").select_option(index=4)
    row = 640
    page.evaluate(f"show({both[0].t[row]})")
    torques = {"applied": both[0].tau[row, 4], "cone: applied": both[1].tau[row, 4]}
    assert values(page, "torque") == pytest.approx(torques, rel=6e-3)
    assert page.evaluate("plots.plots[0].shown.map((line) => line.dashed)") == [False, True]
    for bodies, trace in zip(("run.bodies", "run.ghost.bodies"), both, strict=True):
        where = page.evaluate(f"{bodies}[1].position.toArray()")
        np.testing.assert_allclose(where, trace.q[row, :3], atol=1e-5)
    opacities = """(bodies) => {
        const found = [];
        for (const body of bodies()) body.traverse((object) => object.material && found.push(object.material.opacity));
        return found;
    }"""
    assert set(page.evaluate(f"({opacities})(() => run.bodies)")) == {1}
    assert max(page.evaluate(f"({opacities})(() => run.ghost.bodies)")) < 0.5
    page.locator("#with").select_option(label="–")
    assert page.evaluate("run.ghost") is None
    assert list(values(page, "torque")) == ["applied"]
