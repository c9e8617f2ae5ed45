"""The independent check of an answer. Imports no law, no solver and no reduction."""
