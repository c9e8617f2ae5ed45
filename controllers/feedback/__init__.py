"""Feedback terms: joints, base stabilisation, foot spread, grip, delay compensation."""
