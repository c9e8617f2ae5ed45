"""From the text of a description to Pinocchio's model."""

from pathlib import Path
from xml.etree import ElementTree

import pinocchio as pin

from idyn.errors import InputError, ModelError
from idyn.model.description import Description
from idyn.model.mjcf import build_mjcf, is_mjcf
from idyn.model.urdf import with_counted_turns


def read_text(path: str | Path) -> str:
    """Return the text of a file. Raises ModelError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error})") from error


def build_model(description: Description, source: str) -> pin.Model:
    """Build Pinocchio's model. Raises InputError for `base`, ModelError for the URDF."""
    base = description.base
    if base not in ("free_flyer", "fixed"):
        raise InputError("base", f"expected 'free_flyer' or 'fixed', got '{base}'")
    root = (pin.JointModelFreeFlyer(),) if base == "free_flyer" else ()
    kind = "MJCF" if is_mjcf(description.urdf) else "URDF"
    try:
        if kind == "MJCF":
            model = build_mjcf(description.urdf)
        else:
            model = pin.buildModelFromXML(with_counted_turns(description.urdf), *root)
    except (ElementTree.ParseError, ValueError, RuntimeError) as error:
        raise ModelError(f"{source}: not a {kind} that Pinocchio can parse ({error})") from error
    if model.nv == 0:
        raise ModelError(f"{source}: expected at least one moving joint, got none")
    return model
