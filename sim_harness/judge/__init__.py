"""Judge steps of any simulator: which law a solution violates, by how much, its energy, and a certified answer beside it."""
