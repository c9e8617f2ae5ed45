"""Conformance tests of the wire protocol: of a foreign server, and of a foreign client."""
