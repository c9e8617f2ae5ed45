"""Commands for configurations, keys and the installation."""
