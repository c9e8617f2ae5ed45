"""TOML into typed settings: kinds, words that stand for tables, changes. Below everything that has settings."""
