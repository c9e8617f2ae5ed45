"""Forward contact engines behind one protocol. They share solvers with the contact laws, but no law code."""
