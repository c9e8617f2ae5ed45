"""The robot-facing service: messages, session, sockets, logs and replay."""
