"""Sessions of clients: handshake, checks and state of each. Without sockets, clocks and controllers."""
