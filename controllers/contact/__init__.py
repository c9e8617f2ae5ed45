"""Contacts and ground for the prediction: contact sources, landing, terrains, contact compliance, sensed forces."""
