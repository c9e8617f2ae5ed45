"""A walking person as judge: `idyn compare human-walk`."""
