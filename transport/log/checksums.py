"""SHA-256 of the header of a log, so that a replay never uses a damaged robot or controller."""

import hashlib
import json
from collections.abc import Mapping

RECORD = "sha256"
"""Metadata record that holds the checksums."""

METADATA = "metadata"
"""Key of the checksum of all other metadata records; the other keys are names of attachments."""


def checksums(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the SHA-256 of each attachment and of all metadata except the checksums, in hexadecimal."""
    others = {name: dict(record) for name, record in metadata.items() if name != RECORD}
    text = json.dumps(others, sort_keys=True).encode()
    return {name: _digest(data) for name, data in attachments.items()} | {METADATA: _digest(text)}


def damaged(attachments: Mapping[str, bytes], metadata: Mapping[str, Mapping[str, str]]) -> str:
    """Return which parts of a head differ from what was recorded, '' without a difference."""
    recorded, found = metadata.get(RECORD), checksums(attachments, metadata)
    if recorded is None:
        return "its checksums are missing"
    wrong = sorted(name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name))
    return f"wrong checksum of {', '.join(wrong)}" if wrong else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
