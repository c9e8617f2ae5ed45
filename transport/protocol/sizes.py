"""Size limits of messages and socket queues."""

MAX_BYTES = 64 * 1024
"""Largest message that is decoded [bytes]. A state of a 50-joint robot with 20 contacts has about 8 KiB."""

HIGH_WATER = 64
"""Messages that may wait in a socket (ZMQ high-water mark).

Fewer would suffice, but libzmq reports read messages to the sender in batches of half this number, and checks for such reports
once a millisecond: with a mark of 4 it occasionally refuses a message although the queue is empty.
"""

PARTS = b"\xc1"
"""Prefix of a message that arrived in several parts, which are joined: no MessagePack begins with it, so it is refused."""
