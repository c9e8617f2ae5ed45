"""The wire protocol: messages, codec, input checks, torque gate. Shared by both sides; without sockets and clocks."""
