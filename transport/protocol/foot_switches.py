"""Contacts that say no more than that they touch: their places come from the controller's own geometry."""

import msgspec
import numpy as np

from idyn.types import ContactSet, Record
from transport.protocol.agreement import Agreement
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import Contact


class FootSwitches(Record, frozen=True):
    """Which contact places touch, by name; mu: friction coefficients, None where the controller's own hold (n), None when they
    hold everywhere."""

    keys: tuple[str, ...]
    mu: tuple[float | None, ...] | None

    def on(self, contacts: ContactSet) -> ContactSet:
        """The contacts that the controller found for `keys`, with the friction that the client gave."""
        if self.mu is None:
            return contacts
        given = np.array([own if mu is None else mu for mu, own in zip(self.mu, contacts.mu.tolist(), strict=True)])
        return msgspec.structs.replace(contacts, mu=given)


def read_switches(active: list[tuple[int, Contact]], agreement: Agreement) -> FootSwitches:
    """The active contacts, all without p and n, and where each stands in the message. Raises ProtocolError naming
    `contacts[i].field`."""
    places, keys, friction = agreement.robot.contact_names, [], []
    for i, contact in active:
        frame, mu = contact.frame, contact.mu
        if frame not in places:
            message = f"missing, and '{frame}' is no contact place of the robot"
            raise ProtocolError(Code.CONTACT_UNKNOWN, f"contacts[{i}].p", message)
        if frame in keys:
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].frame", f"'{frame}' appears twice")
        if contact.t1 is not None or contact.t2 is not None or contact.dist != 0.0:
            field = "t1" if contact.t1 is not None else "t2" if contact.t2 is not None else "dist"
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].{field}", "means nothing without p and n")
        if mu is not None and not mu >= 0:
            raise ProtocolError(Code.BAD_SCHEMA, f"contacts[{i}].mu", f"expected ≥ 0, got {mu}")
        keys.append(frame)
        friction.append(agreement.mu if mu is None else mu)
    given = friction.count(None) < len(friction)
    return FootSwitches(keys=tuple(keys), mu=tuple(friction) if given else None)
