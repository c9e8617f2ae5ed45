"""The server: sockets, sessions, and the service that calls the controller."""
