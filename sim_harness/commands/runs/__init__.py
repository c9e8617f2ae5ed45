"""Commands that run simulations, comparisons and measurements."""
