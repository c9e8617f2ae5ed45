"""What is on the wire, and what both ends hold to. Knows no socket, no clock and neither end."""
