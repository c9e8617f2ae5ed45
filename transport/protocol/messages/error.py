"""The reply to a refused message."""

from enum import StrEnum

from transport.protocol.messages.base import Count, ServerMessage


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
