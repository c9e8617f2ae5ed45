"""Base classes and types of all messages: schema 1.2, MessagePack maps with string keys.

A message is a map with `t` (its type) and `v` (the schema version). The classes of this package *are* the schema: field
names are the keys on the wire, a field with a default may be omitted, and an unknown key in a client message is refused. A
`Vector` is little-endian float64 `bin` or a list of numbers; both are read, `bin` is written. Fields marked "recorded" go
into the log and have no effect on the torque.

nq, nv: dimensions of configuration and velocity; na: number of motors. q and vel follow the client's `joint_names`, torque
vectors its `actuated`. Vectors are in the world frame unless a comment says otherwise. Times are integers in nanoseconds.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

SCHEMA = "1.2"  # schema version major.minor: another major is refused, another minor is read
MOST = 1024  # largest number of entries in a list of a client's message. It is checked before the entries are decoded

Vector = bytes | Annotated[list[float], msgspec.Meta(max_length=MOST)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Names = Annotated[list[Name], msgspec.Meta(max_length=MOST)]
Frames = Annotated[list[Name], msgspec.Meta(max_length=256)]
Count = Annotated[int, msgspec.Meta(ge=0)]  # integer ≥ 0. Servers write at most 53 bits; a client may send 64
Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]  # time [ns]; the bounds keep sums within 64 bits


class Part(msgspec.Struct, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A map inside a client message. Unknown keys are refused."""


class ClientMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t", forbid_unknown_fields=True, omit_defaults=True):
    """A message from a client.

    Unknown keys are refused, so that a misspelt field is an error. Fields at their default are omitted, so that an older server
    refuses a new field only from clients that use it.
    """

    v: str = msgspec.field(default_factory=lambda: SCHEMA)  # schema version; always written, unlike a plain default


class ServerPart(msgspec.Struct, kw_only=True, gc=False):
    """A map inside a server message. Later minor versions may add keys."""


class ServerMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t"):
    """A message from a server. Later minor versions may add keys."""

    v: str = SCHEMA


class Code(StrEnum):
    """Why a message was refused."""

    BAD_SCHEMA = "bad_schema"
    VERSION_MISMATCH = "version_mismatch"
    MODEL_MISMATCH = "model_mismatch"
    JOINT_MAP = "joint_map"
    NOT_CONTROLLING = "not_controlling"
    STALE_STATE = "stale_state"
    OUT_OF_ORDER = "out_of_order"
    DUPLICATE = "duplicate"
    NON_FINITE = "non_finite"
    WRONG_LENGTH = "wrong_length"
    QUATERNION_NOT_UNIT = "quaternion_not_unit"
    CONTACT_UNKNOWN = "contact_unknown"
    ESTOP = "estop"
    LATCHED_FAULT = "latched_fault"
    INTERNAL = "internal"


class ErrorMessage(ServerMessage, tag="error"):
    """The refusal of a message, of which no content was applied."""

    code: Code
    message: str
    recoverable: bool  # the next correct message is answered; otherwise `hello` or `reset` is needed first
    field: str | None = None  # the invalid field, as in `contacts[1].mu`
    seq: int | None = None  # of the refused state, if readable
    session: Count | None = None
