"""Every law in every world, `idyn compare laws-and-worlds`: its claims, in short runs of some cells."""

import math
from typing import get_args

import pytest
from fast import fast, full

from idyn.laws.settings import LAWS
from sim_harness.compare.matrix.settings import Cell, cells
from sim_harness.compare.matrix.table import Panel, part_figure, quantity_table
from sim_harness.compare.results import Runs, statistic
from sim_harness.compare.settings import load_comparison, plan_of_cell
from sim_harness.run.experiment import run_in_process
from sim_harness.world.worlds import NAMES, AnyEngine

SECONDS = {"stance": 1.0, "trot": 0.6, "stance without joint feedback": 0.3}
"""Of the runs here. At first robots settle on floors that yield; the trot's first feet land at 0.38 s."""


@pytest.fixture(scope="module")
def comparison():
    return load_comparison("laws-and-worlds")


@pytest.fixture(scope="module")
def summary(comparison):
    """Of the first seed's run of a law in a world."""
    parts = {part.name: part for part in comparison.matrix.part}

    def run(part, world, law):
        cell = Cell(part, "shipped", "quadruped", world, law, parts[part].cases[0])
        plan = plan_of_cell(comparison, cell, SECONDS[part])
        return run_in_process(plan, law, lambda *_: None, seed=0).summary

    return run


def test_the_matrix_covers_every_engine_and_every_predicting_law(comparison):
    for part in ("stance", "push", "trot"):
        found = [cell for cell in cells(comparison.matrix) if cell.part == part]
        engines = {type(plan_of_cell(comparison, cell).settings.engine) for cell in found if cell.law == "coulomb"}
        assert engines == set(get_args(AnyEngine)), NAMES
        assert {cell.law for cell in found} >= set(LAWS) - {
            "sensed",
            "enumeration",
            "mujoco",
        }  # is told; takes two feet; is for one world


@full
@pytest.mark.parametrize("world", fast(NAMES, "newton"))
@pytest.mark.parametrize("law", fast(["no-slip", "coulomb", "cone"], "coulomb"))
def test_a_stance_on_yielding_settings_is_predicted_within_half_a_per_cent_of_the_weight(summary, law, world):
    figures = summary("stance", world, law)
    assert figures.upright
    assert figures.force_error < 5e-3 * figures.weight
    assert figures.modes == {"ok": 1.0}


@full
def test_sap_is_exact_in_its_own_world_up_to_joint_feedback(summary):
    alone, fed_back = (summary(part, "sap", "sap, gaps measured") for part in ("stance without joint feedback", "stance"))
    assert alone.upright
    assert fed_back.upright
    assert alone.force_error < 1e-9 * alone.weight
    assert 1e-6 * alone.weight < fed_back.force_error < 5e-3 * alone.weight


@full
def test_sap_needs_gaps_that_foot_switches_do_not_measure(summary):
    told, switches = summary("stance", "sap", "sap, gaps measured"), summary("stance", "sap", "sap")
    assert told.force_error < 5e-3 * told.weight
    assert switches.force_error > 0.2 * switches.weight


@full
def test_sap_trots_with_known_floor_and_foot_positions(summary):
    for world in ("sap", "mujoco springs"):
        figures = summary("trot", world, "sap, floor known")
        assert figures.upright
        assert figures.force_error < 0.03 * figures.weight


@full
def test_the_picture_of_a_part_has_a_panel_for_each_quantity(comparison, summary):
    """Quantities over a decade, of equal values, and without runs."""
    part, matrix = comparison.matrix.part[0], comparison.matrix
    stood, fell = summary("stance", "lcp", "coulomb"), summary("stance", "penalty", "sap, gaps measured")
    assert not fell.upright
    results = {cell: Runs(folders=[], summaries=[fell if cell.law == "sap" else stood]) for cell in cells(matrix)}
    assert part_figure(part, matrix, results)[1:4] == b"PNG"
    none = dict.fromkeys(results, Runs(folders=[], summaries=[fell]))
    assert part_figure(part, matrix, none)[1:4] == b"PNG"
    rows = quantity_table(Panel(part, "shipped"), "joint-error", results)
    assert {row[0]: row[1] for row in rows}["sap"] == "–"
    assert math.isclose(statistic(Runs(folders=[], summaries=[stood]), "joint-error").mean, 1e3 * stood.tracking)
