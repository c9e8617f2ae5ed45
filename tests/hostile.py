"""Chunks of logs that become much longer when they are decompressed."""

import struct

import zstandard

GB = 2**30


def zstd_of_zeros(size: int, declared: int) -> bytes:
    """A frame with `size` zeros; its head declares another size when `declared` is not −1."""
    packer = zstandard.ZstdCompressor().compressobj(size=declared)
    parts = [packer.compress(bytes(2**20)) for _ in range(size // 2**20)]
    return b"".join([*parts, packer.flush()])


def chunk(data: bytes, declared: int, compression: str) -> bytes:
    text = compression.encode()
    body = struct.pack("<QQQII", 0, 0, declared, 0, len(text)) + text + struct.pack("<Q", len(data)) + data
    return struct.pack("<BQ", 6, len(body)) + body
