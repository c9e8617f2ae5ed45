"""The command line: options of all commands, and one module for each group of them."""
