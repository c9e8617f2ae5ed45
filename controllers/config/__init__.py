"""Typed settings from TOML: families of tables, defaults, overrides. Independent of what is configured."""
