"""The packages beside `idyn`, which have common names of folders, are found whatever the first entries of `sys.path` hold:
once `idyn` has been imported, these names mean the packages installed with it."""

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

NAMES = ("controllers", "transport", "sim_harness", "configs")

ROOT = Path(__file__).resolve().parents[1]  # the folder that has these packages, and `idyn`


class Siblings(MetaPathFinder):
    """Finds the packages of `NAMES` in `ROOT`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the package of this name; None for other names. Warns of another package that it hides."""
        if path is not None or fullname not in NAMES:
            return None
        own, first = PathFinder.find_spec(fullname, [str(ROOT)]), PathFinder.find_spec(fullname)
        if own is not None and first is not None and first.origin not in (None, own.origin):
            warnings.warn(f"idyn's package '{fullname}' hides {first.origin}; rename that one to import it", stacklevel=2)
        return own


def find_siblings() -> None:
    """Let the packages be found."""
    if not any(isinstance(finder, Siblings) for finder in sys.meta_path):
        sys.meta_path.insert(0, Siblings())


def check_sibling(module: str) -> None:
    """Raise ImportError if another package than idyn's was imported under the first part of a module's name."""
    name = module.partition(".")[0]
    other = sys.modules.get(name)
    if other is None:
        return
    where = other.__file__ or ", ".join(other.__path__)
    if ROOT not in Path(where).resolve().parents:
        raise ImportError(f"expected idyn's package '{name}', but {where} was imported under this name; rename that one")
