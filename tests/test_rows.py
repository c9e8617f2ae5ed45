"""`each_row`: every row is tried, and each that fails is named."""

import numpy as np
import pytest
from rows import each_row


@pytest.fixture
def tried():
    return []


def test_all_rows_are_tried_and_those_that_fail_are_named(tried):
    @each_row("kind", ["a", "b"])
    @each_row("x, y", [(1, 1), (2, 3), (4, np.nan)])
    def equal(tried, kind, x, y):
        tried.append((kind, x))
        with pytest.raises(ZeroDivisionError):
            x / (1 if kind == "b" else 0)
        assert x == y

    with pytest.raises(AssertionError) as error:
        equal(tried=tried)
    assert tried == [("a", 1), ("a", 2), ("a", 4), ("b", 1), ("b", 2), ("b", 4)]
    for named in ("2 of 2 rows fail", "row 0 (kind = 'a')", "row 2 (x = 4, y = nan): AssertionError", "Failed: DID NOT RAISE"):
        assert named in str(error.value)


@each_row("x", [1, 2])
@pytest.mark.parametrize("y", [3])
def test_fixtures_and_cases_go_with_rows(tried, x, y):
    tried.append(x)
    assert (tried, y) == ([1, 2][:x], 3)
