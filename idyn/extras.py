"""Optional packages (extras): the command that installs them, and the error when they are missing."""

import json
from importlib.metadata import PackageNotFoundError, distribution

from idyn.errors import ConfigError


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where idyn was installed from."""
    try:
        text = distribution("idyn").read_text("direct_url.json")
    except PackageNotFoundError:  # a source folder that is not installed
        text = None
    origin = json.loads(text) if text else {}
    url = str(origin.get("url", ""))
    if not url.startswith("file://"):
        return f"pip install 'idyn[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url.removeprefix('file://')}[{extra}]'"


def missing_extra(field: str, what: str, package: str, extra: str) -> ConfigError:
    """Return the error about a missing package. field: setting or option that needs it; what: needs it"""
    return ConfigError(field, f"{what} needs the package {package}, which is not installed: {install_command(extra)}")
