"""The server's sockets: ROUTER, access control, connection limits, polling."""
