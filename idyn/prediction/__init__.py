"""From a demand to a certified answer."""
