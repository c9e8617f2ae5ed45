"""Digests of what stands at the head of a log, so that no damaged robot or controller is taken for the recorded one."""

import hashlib
import json
from collections.abc import Mapping

RECORD = "sha256"
"""Name of the metadata record that holds them."""

METADATA = "metadata"
"""Its key for all other metadata records; the others are names of attachments."""


def checksums(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """SHA-256 of each attachment, and of all metadata but these, in hexadecimal."""
    others = {name: dict(record) for name, record in metadata.items() if name != RECORD}
    text = json.dumps(others, sort_keys=True).encode()
    return {name: _digest(data) for name, data in attachments.items()} | {METADATA: _digest(text)}


def damaged(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> str:
    """What of a head is not as it was written, '' when all is."""
    told, found = metadata.get(RECORD), checksums(attachments, metadata)
    if told is None:
        return "its checksums are missing"
    wrong = sorted(name for name in told.keys() | found.keys() if told.get(name) != found.get(name))
    return f"{', '.join(wrong)}: not as recorded" if wrong else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
