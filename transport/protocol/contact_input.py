"""The contact list of a state message into a `ContactSet`, or into which feet touch."""

import math

import numpy as np

from idyn.contact.contacts import contacts_from_points, first_tangents
from idyn.errors import InputError
from idyn.types import Array, ContactSet
from transport.protocol.agreement import Agreement, check_contact_frame
from transport.protocol.codec import vector, vectors
from transport.protocol.errors import ProtocolError
from transport.protocol.foot_switches import FootSwitches, read_switches
from transport.protocol.messages.base import Vector
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import Contact

RIGHT_HANDED_TOLERANCE = 1e-6
"""How far a given t2 may be from n × t1."""


Active = list[tuple[int, Contact]]
"""The active contacts of a message, and where in its list each stands."""


def read_contacts(contacts: list[Contact], agreement: Agreement) -> tuple[ContactSet | FootSwitches, Array | None]:
    """The active contacts or switches, and the forces measured there, world axes [N] (n, 3), zero where none is valid; None
    when none is at all. Raises ProtocolError naming `contacts[i].field` of the list as it was sent."""
    announced = agreement.contact_frames
    usual = agreement.robot.contact_names if announced is None else announced
    active: Active = []
    placed = sensed = False
    for i, contact in enumerate(contacts):
        if contact.active:
            active.append((i, contact))
            placed = placed or contact.p is not None or contact.n is not None
            sensed = sensed or contact.f_sensed is not None
            if contact.frame not in usual:
                _check_unusual(contact.frame, agreement, f"contacts[{i}].frame")
            if contact.mu_visc is not None and not math.isfinite(contact.mu_visc):  # recorded only
                raise ProtocolError(
                    Code.NON_FINITE, f"contacts[{i}].mu_visc", f"expected a finite number, got {contact.mu_visc}"
                )
    if active and not placed:
        found: ContactSet | FootSwitches = read_switches(active, agreement)
    else:
        found = _read_measured([(f"contacts[{i}]", contact) for i, contact in active], agreement)
    return found, _read_sensed(active) if sensed else None


def _read_measured(contacts: list[tuple[str, Contact]], agreement: Agreement) -> ContactSet:
    parts = [part for where, c in contacts for part in _place(c, where)]
    table = vectors(*parts).reshape(-1, 2, 3)
    points, normals = table[:, 0].copy(), table[:, 1].copy()
    mu = np.array([_friction(contact, agreement, where) for where, contact in contacts])
    gaps = np.array([contact.dist for _, contact in contacts])
    keys, fields = [contact.frame for _, contact in contacts], [where for where, _ in contacts]
    try:
        return contacts_from_points(agreement.robot, keys, points, normals, mu, gaps, _tangents(contacts, normals), fields)
    except InputError as error:
        raise ProtocolError(Code.BAD_SCHEMA, error.field, error.message) from None


def _read_sensed(active: Active) -> Array | None:
    force, measured = np.zeros((len(active), 3)), False
    for row, (i, contact) in enumerate(active):
        if contact.f_sensed is not None:
            values = vector(contact.f_sensed, 3, f"contacts[{i}].f_sensed")
            if contact.sensed_valid:
                force[row], measured = values, True
    return force if measured else None


def _place(contact: Contact, where: str) -> tuple[tuple[Vector, int, str], tuple[Vector, int, str]]:
    """Point and normal of a measured contact, for `vectors`."""
    if contact.p is None or contact.n is None:
        missing = "p" if contact.p is None else "n"
        message = "missing; all contacts of a state have p and n, or, as foot switches, none has either"
        raise ProtocolError(Code.BAD_SCHEMA, f"{where}.{missing}", message)
    return (contact.p, 3, f"{where}.p"), (contact.n, 3, f"{where}.n")


def _check_unusual(frame: str, agreement: Agreement, field: str) -> None:
    """A frame that was not announced, or is no contact place of the robot."""
    if agreement.contact_frames is not None:
        raise ProtocolError(Code.CONTACT_UNKNOWN, field, f"'{frame}' was not among the contact_frames of the hello")
    check_contact_frame(agreement.robot, frame, field)


def _friction(contact: Contact, agreement: Agreement, where: str) -> float:
    if contact.mu is not None:
        return contact.mu
    if agreement.mu is not None:
        return agreement.mu
    robot = agreement.robot
    for keys, mu in ((robot.spheres.keys, robot.spheres.mu), (robot.boxes.pair_keys, robot.boxes.pair_mu)):
        if contact.frame in keys:
            return float(mu[keys.index(contact.frame)])
    raise ProtocolError(Code.BAD_SCHEMA, f"{where}.mu", f"missing, and the robot has none for '{contact.frame}'")


def _tangents(active: list[tuple[str, Contact]], normals: Array) -> Array | None:
    """First tangents (n, 3) when any contact gives one, else None."""
    rows = [i for i, (_, contact) in enumerate(active) if contact.t1 is not None]
    parts = [(contact.t1, 3, f"{where}.t1") for where, contact in active if contact.t1 is not None]
    tangents = first_tangents(normals) if len(rows) < len(active) else np.empty_like(normals)
    tangents[rows] = vectors(*parts).reshape(-1, 3)
    for i, (where, contact) in enumerate(active):
        if contact.t2 is not None:
            second = vector(contact.t2, 3, f"{where}.t2")
            if contact.t1 is None or np.abs(np.cross(normals[i], tangents[i]) - second).max() > RIGHT_HANDED_TOLERANCE:
                raise ProtocolError(Code.BAD_SCHEMA, f"{where}.t2", "expected n × t1")
    return tangents if rows else None
