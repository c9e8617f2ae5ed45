"""Data of a log's chunk, decompressed within a bound: what a file declares is not trusted."""

import zlib
from io import BytesIO

import lz4.frame
import zstandard
from mcap.records import Chunk

from transport.log.part import LogError

CHUNK_MAX_BYTES = 16 * 1024 * 1024
"""A chunk longer than this, decompressed, is refused [bytes]."""


def chunk_data(chunk: Chunk) -> bytes:
    """Return the records of a chunk.

    Raises LogError for a chunk that is too long or has an unknown compression, ValueError for a damaged one.
    """
    if chunk.uncompressed_size > CHUNK_MAX_BYTES:
        raise LogError(f"expected chunks of at most {CHUNK_MAX_BYTES} bytes, got one that declares {chunk.uncompressed_size}")
    data = _decompressed(chunk.compression, chunk.data)
    if len(data) > CHUNK_MAX_BYTES:
        raise LogError(f"expected chunks of at most {CHUNK_MAX_BYTES} bytes, got a longer one")
    if chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise ValueError("wrong checksum of a chunk")
    return data


def _decompressed(compression: str, data: bytes) -> bytes:
    """Return the data, or their first CHUNK_MAX_BYTES + 1 bytes."""
    if compression == "":
        return data
    try:
        if compression == "zstd":
            unpack = zstandard.ZstdDecompressor(max_window_size=CHUNK_MAX_BYTES)
            with unpack.stream_reader(BytesIO(data), read_across_frames=True) as stream:
                return stream.read(CHUNK_MAX_BYTES + 1)
        if compression == "lz4":
            return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, CHUNK_MAX_BYTES + 1))
    except (zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise ValueError(f"a chunk cannot be decompressed ({error})") from error
    raise LogError(f"expected chunks compressed by zstd, lz4 or not at all, got '{compression[:40]}'")
