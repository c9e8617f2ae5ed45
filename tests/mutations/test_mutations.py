"""The faults of the mutation check fit the sources as they are today."""

import pytest
from check import FAULTS, ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault['file']}: {fault['kind']}" for fault in FAULTS])
def test_a_fault_can_be_planted_in_one_place(fault):
    assert (ROOT / fault["file"]).read_text(encoding="utf-8").count(fault["was"]) == 1
    assert all((ROOT / word.partition("::")[0]).exists() for word in fault["near"].split() if "/" in word)
