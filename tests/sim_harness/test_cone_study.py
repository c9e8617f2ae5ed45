"""The study of polygons: their loss of friction matches geometry, and the page has its table and picture."""

import numpy as np
import pytest
from fast import every, full

from idyn.laws import make_law
from sim_harness.commands.main import main
from sim_harness.studies import cone_study
from sim_harness.studies.cone_study import DIRECTIONS, EXACT, sliding_errors, stance


@every("edges", [4, 8, 16])
def test_a_polygon_loses_friction_between_its_corners(edges):
    """Friction points to the nearer corner: at worst cos(π/k) of it is left along the slide, off by π/k. Half-way both corners
    are loaded: it is as weak, and may point anywhere between them."""
    lacks, off = sliding_errors(stance(), make_law("coulomb", edges=edges), edges)
    assert lacks == pytest.approx(1 - np.cos(np.pi / edges), rel=0.02)
    assert 0.9 * np.pi / edges * (1 - 2 / DIRECTIONS) <= off <= np.pi / edges * 1.001


@full
def test_the_round_cone_has_full_friction_in_every_direction():
    lacks, off = sliding_errors(stance(), make_law(EXACT), 4)
    assert max(lacks, off) < 1e-9


def test_the_page_has_its_table_and_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cone_study, "EDGES", (4, 8))
    monkeypatch.setattr(cone_study, "DRAGGED", 12)
    assert main(["compare", "cone-study", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"edges.png", "report.html"}
    printed = capsys.readouterr().out
    assert "exact-cone" in printed
    assert "8 edges" in printed
