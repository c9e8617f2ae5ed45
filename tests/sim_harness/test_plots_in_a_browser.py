"""Plots of the page in a real browser: tied to the time, with the values of the trace."""

import numpy as np
import pytest
from browser import opened

from sim_harness.commands.main import main
from sim_harness.run.experiment import run_in_process
from sim_harness.run.plan import load_plan
from sim_harness.view.runs import read_run

pytestmark = pytest.mark.browser


def quiet(label, ticks):
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of two laws, short enough that each interval of a curve is one tick."""
    folder = tmp_path_factory.mktemp("runs")
    for law in ("coulomb", "cone"):
        (folder / law).mkdir()
        run_in_process(load_plan("trot", 0.9), law, quiet).save(folder / law)
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


@pytest.mark.parametrize("row", [300, 640])
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
