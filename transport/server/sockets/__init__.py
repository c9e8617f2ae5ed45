"""The server's end of the wire."""
