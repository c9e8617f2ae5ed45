"""Shipped configurations of robots, controllers, servers and experiments. Data only."""
