"""Plots and marks of the page in a real browser: tied to the time, with the values of the trace."""

import numpy as np
import pytest
from browser import opened
from fast import every

from sim_harness.commands.main import main
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan, with_controller
from sim_harness.view.runs import read_run

pytestmark = pytest.mark.browser

MU = 0.6
"""Friction coefficient that the controller assumes."""


def quiet(label, ticks):
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of two laws, short enough that each interval of a curve is one tick."""
    folder = tmp_path_factory.mktemp("runs")
    for law in ("coulomb", "cone"):
        (folder / law).mkdir()
        run_in_process(with_controller(load_plan("trot", 0.9), {"contact": {"mu": MU}}), law, quiet).save(folder / law)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    """The page of both runs, paused. It has no errors in the end."""
    assert main(["view", str(folder)]) == 0
    with opened(folder / "view.html") as (page, _, errors):
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
def test_plots_show_the_values_at_the_time(page, folder, row):
    trace = read_run(folder / "coulomb").trace
    page.evaluate(f"show({trace.t[row]})")
    plot(page, "torque").locator("select").select_option(index=4)
    plot(page, "normal force").locator("select").select_option(label=trace.places[1])
    assert values(page, "torque") == {"applied": pytest.approx(trace.tau[row, 4], rel=6e-3)}
    force = values(page, "normal force")
    assert force["world"] == pytest.approx(trace.simulated[row, 1, 0], rel=6e-3, nan_ok=True)
    assert force["predicted"] == pytest.approx(trace.predicted[row, 1, 0], rel=6e-3, nan_ok=True)
    assert values(page, "model mismatch")["motion [g]"] == pytest.approx(trace.mismatch[row, 0], rel=6e-3)
    assert values(page, "time")["controller"] == pytest.approx(1e3 * trace.solve_time[row], rel=6e-3)


def test_the_pointer_shows_values_and_a_click_moves_the_time(page, folder):
    trace = read_run(folder / "coulomb").trace
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


def test_cones_stand_on_contacts_that_carry_and_open_by_the_friction(page, folder):
    run = read_run(folder / "coulomb")
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


def test_footholds_are_where_feet_touched_down(page, folder):
    trace = read_run(folder / "coulomb").trace
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


def test_path_and_centre_of_mass_follow_the_motion(page, folder):
    run = read_run(folder / "coulomb")
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


def test_a_second_run_is_transparent_and_its_curves_are_dashed(page, folder):
    both = [read_run(folder / label).trace for label in ("coulomb", "cone")]
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
