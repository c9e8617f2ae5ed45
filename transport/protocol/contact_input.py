"""Conversion of the contact list of a state message to a `ContactSet` or to foot switches."""

import math

import msgspec
import numpy as np

from idyn.contact.contacts import contacts_from_points, first_tangents
from idyn.errors import InputError
from idyn.types import Array, ContactSet, Record
from transport.protocol.agreement import Agreement, check_contact_frame
from transport.protocol.codec import not_finite, vector, vectors
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.base import Code, Vector
from transport.protocol.messages.state import Contact


class FootSwitches(Record, frozen=True):
    """Contact places that touch."""

    keys: tuple[str, ...]  # names of the contact places (n)
    # friction coefficients (n), None for the controller's own; None instead of the tuple: all the controller's own
    mu: tuple[float | None, ...] | None
    # contact place → sensed force [N], also of places that do not touch; empty without force sensors
    forces: dict[str, float] = msgspec.field(default_factory=dict)

    def changed(self, keys: tuple[str, ...]) -> "FootSwitches":
        """Return switches of which exactly `keys` are closed; friction of those that were closed is kept."""
        if keys == self.keys:
            return self
        mu = None if self.mu is None else dict(zip(self.keys, self.mu, strict=True))
        return msgspec.structs.replace(self, keys=keys, mu=None if mu is None else tuple(mu.get(key) for key in keys))

    def on(self, contacts: ContactSet) -> ContactSet:
        """Return the controller's contacts, with the friction coefficients that the client gave for some of `keys`."""
        if self.mu is None:
            return contacts
        mu = {key: mu for key, mu in zip(self.keys, self.mu, strict=True) if mu is not None}
        given = np.array([mu.get(key, own) for key, own in zip(contacts.keys, contacts.mu.tolist(), strict=True)])
        return msgspec.structs.replace(contacts, mu=given)


def read_switches(active: list[tuple[int, Contact]], forces: dict[str, float], agreement: Agreement) -> FootSwitches:
    """Return active contacts without p and n as foot switches.

    active: contacts, each with its index in the message; forces: see `FootSwitches`
    Raises ProtocolError with the field `contacts[i].…`.
    """
    places, keys, friction = agreement.robot.contact_names, [], []
    for i, contact in active:
        frame, mu = contact.frame, contact.mu
        if frame not in places:
            message = f"missing field: '{frame}' is not a contact place of the robot"
            raise ProtocolError(Code.CONTACT_UNKNOWN, f"contacts[{i}].p", message)
        if frame in keys:
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].frame", f"'{frame}' appears twice")
        if contact.t1 is not None or contact.t2 is not None or contact.dist != 0.0:
            field = "t1" if contact.t1 is not None else "t2" if contact.t2 is not None else "dist"
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].{field}", "expected p and n with this field")
        if mu is not None and not mu >= 0:
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].mu", f"expected ≥ 0, got {mu}")
        keys.append(frame)
        friction.append(agreement.mu if mu is None else mu)
    given = friction.count(None) < len(friction)
    return FootSwitches(keys=tuple(keys), mu=tuple(friction) if given else None, forces=forces)


RIGHT_HANDED_TOLERANCE = 1e-6  # largest difference of a given t2 from n × t1, in any component
Active = list[tuple[int, Contact]]  # the active contacts of a message, each with its index in the message


def read_contacts(contacts: list[Contact], agreement: Agreement) -> tuple[ContactSet | FootSwitches, Array | None]:
    """Return the active contacts, or foot switches if none has p or n, and the measured forces.

    forces: world axes [N] (n, 3), zero without a valid measurement; None when no contact has one
    Raises ProtocolError with the field `contacts[i].…`, i as in the message.
    """
    announced = agreement.contact_frames
    usual = agreement.robot.contact_names if announced is None else announced
    active: Active = []
    placed = sensed = open_sensed = False
    for i, contact in enumerate(contacts):
        if contact.active:
            active.append((i, contact))
            placed = placed or contact.p is not None or contact.n is not None
            sensed = sensed or contact.f_sensed is not None
            if contact.frame not in usual:
                _check_unusual(contact.frame, agreement, f"contacts[{i}].frame")
            if contact.mu_visc is not None and not math.isfinite(contact.mu_visc):  # recorded only
                raise not_finite(f"contacts[{i}].mu_visc", contact.mu_visc)
        else:
            open_sensed = open_sensed or contact.f_sensed is not None
    if not placed:
        forces = _sensed_forces(contacts) if sensed or open_sensed else {}
        found: ContactSet | FootSwitches = read_switches(active, forces, agreement)
    else:
        found = _read_measured([(f"contacts[{i}]", contact) for i, contact in active], agreement)
    return found, _read_sensed(active) if sensed else None


def _read_measured(contacts: list[tuple[str, Contact]], agreement: Agreement) -> ContactSet:
    """Return measured contacts, each given with the path of its message field, as a `ContactSet`."""
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
    """Return the measured contact forces, world axes [N] (n, 3), None when no contact has a valid one."""
    force, measured = np.zeros((len(active), 3)), False
    for row, (i, contact) in enumerate(active):
        if contact.f_sensed is not None:
            values = vector(contact.f_sensed, 3, f"contacts[{i}].f_sensed")
            if contact.sensed_valid:
                force[row], measured = values, True
    return force if measured else None


def _sensed_forces(contacts: list[Contact]) -> dict[str, float]:
    """Return the measured forces of foot switches, also of open ones [N], by contact place. Raises ProtocolError."""
    measured = [(i, c.frame, c.f_sensed) for i, c in enumerate(contacts) if c.f_sensed is not None and c.sensed_valid]
    return {frame: math.hypot(*vector(f, 3, f"contacts[{i}].f_sensed").tolist()) for i, frame, f in measured}


def _place(contact: Contact, where: str) -> tuple[tuple[Vector, int, str], tuple[Vector, int, str]]:
    """Return point and normal of a measured contact as parts for `vectors`. Raises ProtocolError when one is missing."""
    if contact.p is None or contact.n is None:
        missing = "p" if contact.p is None else "n"
        message = "missing field: either all contacts of a state have p and n, or all are foot switches without both"
        raise ProtocolError(Code.BAD_SCHEMA, f"{where}.{missing}", message)
    return (contact.p, 3, f"{where}.p"), (contact.n, 3, f"{where}.n")


def _check_unusual(frame: str, agreement: Agreement, field: str) -> None:
    if agreement.contact_frames is not None:
        raise ProtocolError(Code.CONTACT_UNKNOWN, field, f"expected one of the contact_frames of hello, got '{frame}'")
    check_contact_frame(agreement.robot, frame, field)


def _friction(contact: Contact, agreement: Agreement, where: str) -> float:
    """Return the friction coefficient of a contact: its own, that of `hello`, or that of the robot's contact place."""
    if contact.mu is not None:
        return contact.mu
    if agreement.mu is not None:
        return agreement.mu
    robot = agreement.robot
    for keys, mu in ((robot.spheres.keys, robot.spheres.mu), (robot.boxes.pair_keys, robot.boxes.pair_mu)):
        if contact.frame in keys:
            return float(mu[keys.index(contact.frame)])
    message = f"missing field, and the robot has no friction coefficient for '{contact.frame}'"
    raise ProtocolError(Code.BAD_SCHEMA, f"{where}.mu", message)


def _tangents(active: list[tuple[str, Contact]], normals: Array) -> Array | None:
    """Return the first tangents t1 (n, 3), None when no contact gives one. Raises ProtocolError unless t2 = n × t1."""
    rows = [i for i, (_, contact) in enumerate(active) if contact.t1 is not None]
    parts = [(contact.t1, 3, f"{where}.t1") for where, contact in active if contact.t1 is not None]
    tangents = first_tangents(normals) if len(rows) < len(active) else np.empty_like(normals)
    tangents[rows] = vectors(*parts).reshape(-1, 3)
    for i, (where, contact) in enumerate(active):
        if contact.t2 is not None:
            second = vector(contact.t2, 3, f"{where}.t2")
            if contact.t1 is None or np.abs(np.cross(normals[i], tangents[i]) - second).max() > RIGHT_HANDED_TOLERANCE:
                raise ProtocolError(Code.BAD_SCHEMA, f"{where}.t2", "expected n × t1, with t1 given")
    return tangents if rows else None
