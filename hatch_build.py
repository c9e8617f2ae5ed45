"""Build hook: the library of kernels beside the sources, unless one of these sources is there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuild(BuildHookInterface):
    """Builds `idyn/library/libidyn.so` and the module that calls it, for wheels and editable installs."""

    def dependencies(self) -> list[str]:
        """Return the package that brings a C compiler, where none is found."""
        return [] if os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library, and put it into the wheel, whose tag names the platform and every Python from 3.11 on."""
        if self.target_name != "wheel":
            return
        subprocess.run([sys.executable, "-m", "idyn.library.build", "--if-stale"], cwd=self.root, check=True)
        folder = Path("idyn/library")
        build_data["artifacts"] += [str(folder / name) for name in ("libidyn.so", "_call.abi3.so")]
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform()}"


def _platform() -> str:
    from packaging.tags import platform_tags  # noqa: PLC0415  (hatchling requires packaging)

    return next(tag for tag in platform_tags() if not tag.startswith("manylinux"))
