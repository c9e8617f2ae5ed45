"""Unitree's low-level interface: joints and an IMU in, motor commands out, over DDS."""
