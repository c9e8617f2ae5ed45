"""Foot switches: contacts without point and normal, which the controller locates from its geometry."""

import msgspec
import numpy as np

from idyn.types import ContactSet, Record
from transport.protocol.agreement import Agreement
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import Contact


class FootSwitches(Record, frozen=True):
    """Contact places that touch.

    keys: names of the contact places (n)
    mu: friction coefficients (n), None for the controller's own; None instead of the tuple: all the controller's own
    forces: contact place → sensed force [N], also of places that do not touch; empty without force sensors
    """

    keys: tuple[str, ...]
    mu: tuple[float | None, ...] | None
    forces: dict[str, float] = msgspec.field(default_factory=dict)

    def changed(self, keys: tuple[str, ...]) -> "FootSwitches":
        """Return switches of which exactly `keys` are closed; friction of those that were closed is kept."""
        if keys == self.keys:
            return self
        mu = None if self.mu is None else dict(zip(self.keys, self.mu, strict=True))
        return msgspec.structs.replace(self, keys=keys, mu=None if mu is None else tuple(mu.get(key) for key in keys))

    def on(self, contacts: ContactSet) -> ContactSet:
        """Return the controller's contacts for `keys`, with the friction coefficients that the client gave."""
        if self.mu is None:
            return contacts
        given = np.array([own if mu is None else mu for mu, own in zip(self.mu, contacts.mu.tolist(), strict=True)])
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
