"""Feedback: joints, base stabilisation, foot spread, grip, delay compensation."""
