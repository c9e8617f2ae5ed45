"""Speed, in units of `pin.computeAllTerms`."""
