"""How much may be on its way between a robot and its server."""

MAX_BYTES = 64 * 1024
"""A longer message is refused unread. A state of a 50-joint robot with 20 contacts has about 8 KiB."""

HIGH_WATER = 64
"""Messages that may wait in a socket; more would only be older.

libzmq tells the sender of read messages in lots of half of this and looks for that once a millisecond only: with a mark
of 4, as little as one would wish, now and then a message is refused although nothing waits.
"""
