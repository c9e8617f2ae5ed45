"""Commands that read logs and saved runs."""
