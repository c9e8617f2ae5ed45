"""What every message of the wire is made of: schema 1.0, msgpack maps with string keys.

A message is a map with `t` (its type) and `v` (the schema version). The classes of this package *are* the schema: field
names are the keys on the wire, a field with a default may be left out, and a key that a client message does not know is
refused. A `Vector` is little-endian float64 `bin`, or a list of numbers; both are read, `bin` is written. Fields called
"recorded" go into the log and have no effect on the torque.

nq, nv configuration and velocity dimensions, na motors. Vectors in q and vel follow the client's `joint_names`, torque
vectors its `actuated`. World frame unless a comment says otherwise. Times are integers in nanoseconds.
"""

from typing import Annotated

import msgspec

SCHEMA = "1.0"
"""major.minor: another major is refused, another minor of the same major is read."""

Vector = bytes | list[float]
Count = Annotated[int, msgspec.Meta(ge=0)]
"""An unsigned 64-bit integer."""

Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""[ns], with room for sums in 64 bits."""


class Part(msgspec.Struct, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A map inside a client's message."""


class ClientMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t", forbid_unknown_fields=True, omit_defaults=True):
    """What a client sends. Unknown keys are refused, so that a misspelt field is never silently without effect; what has its
    default is left out, so that a server which does not know the field yet understands all who make no use of it."""

    v: str = msgspec.field(default_factory=lambda: SCHEMA)  # always written, unlike a plain default


class ServerPart(msgspec.Struct, kw_only=True, gc=False):
    """A map inside a server's message; later minors may add keys."""


class ServerMessage(msgspec.Struct, kw_only=True, gc=False, tag_field="t"):
    """What a server sends; later minors may add keys."""

    v: str = SCHEMA
