"""The usual trial."""

import pytest
from trial import standing


@pytest.fixture
def trial(tmp_path):
    with standing(tmp_path) as trial:
        yield trial
