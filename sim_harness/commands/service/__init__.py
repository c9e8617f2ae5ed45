"""Commands around a running server."""
