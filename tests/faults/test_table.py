"""The README has the table of all faults, as these modules tell it."""

from pathlib import Path

import test_company  # noqa: F401
import test_line  # noqa: F401
import test_processes  # noqa: F401
from faults import COMPANY, FAULTS, table


def test_the_readme_has_the_table() -> None:
    """Begin and end are marked there; what stands between is `faults.table()`."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    between = readme.split("<!-- faults -->\n")[1].split("<!-- /faults -->")[0]
    assert between.strip() == table().strip()
    assert f"The table of faults: {len(FAULTS) + len(COMPANY)} of them" in readme
