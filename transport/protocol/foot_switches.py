"""Contacts that say no more than that they touch: their places come from the controller's own geometry."""

import msgspec
import numpy as np

from idyn.types import ContactSet, Record
from transport.protocol.agreement import Agreement
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code
from transport.protocol.messages.state import Contact

MEASURED = {"t1": None, "t2": None, "dist": 0.0}
"""Fields that need a measured point and normal, and what they are without."""


class FootSwitches(Record, frozen=True):
    """Which contact places touch, by name; mu: friction coefficients, None where the controller's own hold (n)."""

    keys: tuple[str, ...]
    mu: tuple[float | None, ...]

    def on(self, contacts: ContactSet) -> ContactSet:
        """The contacts that the controller found for `keys`, with the friction that the client gave."""
        if all(mu is None for mu in self.mu):
            return contacts
        given = np.array([own if mu is None else mu for mu, own in zip(self.mu, contacts.mu.tolist(), strict=True)])
        return msgspec.structs.replace(contacts, mu=given)


def is_switch(contact: Contact) -> bool:
    """Whether a contact leaves its place to the controller."""
    return contact.p is None and contact.n is None


def read_switches(active: list[tuple[str, Contact]], agreement: Agreement) -> FootSwitches:
    """The active contacts and where each stands in the message. Raises ProtocolError naming `contacts[i].field`."""
    robot = agreement.robot
    keys = [contact.frame for _, contact in active]
    for i, (where, contact) in enumerate(active):
        if contact.frame not in robot.contact_names:
            raise ProtocolError(
                Code.CONTACT_UNKNOWN, f"{where}.p", f"missing, and '{contact.frame}' is no contact place of the robot"
            )
        if contact.frame in keys[:i]:
            raise ProtocolError(Code.BAD_SCHEMA, f"{where}.frame", f"'{contact.frame}' appears twice")
        for field, absent in MEASURED.items():
            if getattr(contact, field) != absent:
                raise ProtocolError(Code.BAD_SCHEMA, f"{where}.{field}", "means nothing without p and n")
        if contact.mu is not None and not contact.mu >= 0:
            raise ProtocolError(Code.BAD_SCHEMA, f"{where}.mu", f"expected ≥ 0, got {contact.mu}")
    mu = tuple(agreement.mu if contact.mu is None else contact.mu for _, contact in active)
    return FootSwitches(keys=tuple(keys), mu=mu)
