"""Footholds on known ground."""

import numpy as np
import pytest
from fast import every

from controllers.contact.footing import CANDIDATES, FARTHEST, MARGIN, heights_at, safe_shifts
from idyn.contact.terrain import Flat, Slope, Stairs

STAIRS = Stairs(0.5, 0.3, 0.1, 4)
NO_SHIFT = np.zeros((1, 2))


@every("x", np.arange(0.3, 1.6, 0.01))
def test_footholds_keep_away_from_edges(x):
    """The edges are at 0.5 + 0.3 k; a foothold that is farther away than the margin stays where it is."""
    edges = 0.5 + 0.3 * np.arange(4)
    shift = safe_shifts(STAIRS, np.array([[x, 0.1]]), NO_SHIFT)[0]
    assert np.abs(x + shift[0] - edges).min() > MARGIN - 1e-9
    if np.abs(x - edges).min() > MARGIN + 1e-9:
        np.testing.assert_array_equal(shift, 0.0)
    else:
        assert np.hypot(*shift) <= 2.0 * MARGIN + FARTHEST / 5


@every("ground", [Flat(), Slope(0.35, direction=1.0)])
def test_footholds_on_planes_stay(ground):
    wanted = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 2))
    np.testing.assert_array_equal(safe_shifts(ground, wanted, np.zeros((5, 2))), 0.0)


def test_a_foothold_that_moved_does_not_jump_to_the_other_side():
    """Just beyond the middle of an edge the nearer side is the other one, but the last displacement counts."""
    last = np.array([[-0.04, 0.0]])
    assert safe_shifts(STAIRS, np.array([[0.505, 0.0]]), last)[0, 0] < 0.0
    assert safe_shifts(STAIRS, np.array([[0.505, 0.0]]), NO_SHIFT)[0, 0] > 0.0


def test_where_no_place_is_safe_the_foothold_stays():
    narrow = Stairs(0.0, 0.02, 0.03, 100)
    np.testing.assert_array_equal(safe_shifts(narrow, np.array([[0.5, 0.0]]), NO_SHIFT), 0.0)
    assert np.hypot(*CANDIDATES.T).max() == pytest.approx(FARTHEST)


def test_heights_are_those_of_the_treads():
    places = np.array([[0.0, 0.0], [0.65, 1.0], [0.95, -1.0], [9.0, 0.0]])
    np.testing.assert_allclose(heights_at(STAIRS, places), [0.0, 0.1, 0.2, 0.4], atol=1e-12)
