"""Recordings and measured figures of scenes, and the analytic values they are compared with."""
