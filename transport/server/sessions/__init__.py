"""From bytes of any client to what the service has to do. Knows no socket, no clock and no controller."""
