"""Commands that take files of others: steps of simulators."""
