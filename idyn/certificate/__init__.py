"""The certificate: independent check of a solution. It imports no law, solver or reduction."""
