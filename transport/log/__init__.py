"""What is written down, byte by byte, and read again."""
