"""Pinocchio's model of a URDF or MJCF. A URDF is checked before and after: nothing may be lost."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from idyn.errors import InputError, ModelError
from idyn.model.description import Description
from idyn.model.inspection import Finding, inspect_structure, inspect_urdf
from idyn.model.mjcf import build_mjcf, is_mjcf
from idyn.model.urdf import lines_of, parse_urdf, with_counted_turns, without_shapes

SHOWN = 8
"""Number of errors in one message."""

SINGULAR = 1e-13
"""A pivot of the mass matrix below this share of its diagonal element is rounding."""


def read_text(path: str | Path) -> str:
    """Return the text of a file. Raises ModelError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error})") from error


def build_model(description: Description, source: str) -> pin.Model:
    """Build Pinocchio's model. Raises InputError for `base`, ModelError for the URDF, with its errors by link and joint."""
    base = description.base
    if base not in ("free_flyer", "fixed"):
        raise InputError("base", f"expected 'free_flyer' or 'fixed', got '{base}'")
    kind = "MJCF" if is_mjcf(description.urdf) else "URDF"
    try:
        model = build_mjcf(description.urdf) if kind == "MJCF" else _build_urdf(description, source)
    except (ElementTree.ParseError, ValueError, RuntimeError) as error:
        raise ModelError(f"{source}: not a {kind} that Pinocchio can parse ({error})") from error
    if model.nv == 0:
        unexpanded = (
            ": elements of xacro are not expanded, expand the file by xacro first" if "<xacro:" in description.urdf else ""
        )
        raise ModelError(f"{source}: expected at least one moving joint, got none{unexpanded}")
    return model


def _build_urdf(description: Description, source: str) -> pin.Model:
    """Build the model of a URDF after its checks. Raises ModelError with its errors."""
    text = description.urdf
    robot = parse_urdf(text, source)
    _refuse(robot, text, source, inspect_structure(robot) or inspect_urdf(robot))
    root = (pin.JointModelFreeFlyer(),) if description.base == "free_flyer" else ()
    model = pin.buildModelFromXML(without_shapes(with_counted_turns(text, source)), *root)
    model.gravity.linear = np.array(description.gravity)
    _check_mass(robot, model, source)
    return model


def check_mass_matrix(model: pin.Model, data: pin.Data, names: tuple[str, ...], source: str) -> None:
    """Check that M is positive definite at the neutral position: M = U D Uᵀ has positive pivots D.

    names: of the velocities (nv)
    Raises ModelError with the outermost velocity whose pivot is not positive.
    """
    diagonal = np.diag(pin.crba(model, data, pin.neutral(model)))
    pin.cholesky.decompose(model, data)
    pivots = np.array(data.D)
    singular = np.flatnonzero(~(pivots > SINGULAR * diagonal) | ~np.isfinite(pivots))
    if len(singular):
        k = int(singular[-1])
        raise ModelError(
            f"{source}: {names[k]}: expected links with mass and inertia beyond this joint, or armature, got an inertia of "
            f"{pivots[k]:g} (kg·m² or kg): the mass matrix is not positive definite"
        )


def _check_mass(robot: ElementTree.Element, model: pin.Model, source: str) -> None:
    """Compare the mass of all links with that of the model: the parser leaves out what it does not understand."""
    masses = [
        float(mass.get("value", "0")) for link in robot.findall("link") if (mass := link.find("inertial/mass")) is not None
    ]
    wanted, got = sum(masses), sum(inertia.mass for inertia in model.inertias)
    if abs(got - wanted) > 1e-9 * wanted:
        raise ModelError(f"{source}: the links have {wanted:g} kg, Pinocchio's parser read {got:g} kg")


def _refuse(robot: ElementTree.Element, text: str, source: str, findings: list[Finding]) -> None:
    """Raise ModelError for the errors among the findings, with the line of each. robot: the element of the text"""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    lines = {(part.tag, part.get("name", "?")): line for part, line in lines_of(robot, text).items()}
    shown = [f"{_place(error, lines)}{error.where}: {error.message}" for error in errors[:SHOWN]]
    more = f"; and {len(errors) - SHOWN} more errors" if len(errors) > SHOWN else ""
    raise ModelError(f"{source}: {'; '.join(shown)}{more}")


def _place(finding: Finding, lines: dict[tuple[str, str], int]) -> str:
    line = lines.get((finding.element, finding.where))
    return "" if line is None else f"line {line}, {finding.element} "
