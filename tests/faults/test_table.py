"""docs/reference/faults.md has the table of all faults, as these modules give it."""

from pathlib import Path

import test_clients_and_server  # noqa: F401
import test_commands  # noqa: F401
import test_connections  # noqa: F401
import test_files  # noqa: F401
import test_processes  # noqa: F401
import test_robot_latches  # noqa: F401
import test_unitree  # noqa: F401
from faults import COMPANY, FAULTS, table


def test_the_documentation_has_the_table() -> None:
    """Between its marks stands `faults.table()`."""
    document = (Path(__file__).parents[2] / "docs" / "reference" / "faults.md").read_text(encoding="utf-8")
    between = document.split("<!-- faults -->\n")[1].split("<!-- /faults -->")[0]
    assert between.strip() == table().strip()
    assert f"The table of faults: {len(FAULTS) + len(COMPANY)} of them" in document
