"""Models of OpenSim (`.osim`): bodies, joints and coordinates. Muscles, markers and drawings are left out.

text → document (elements with lines) → mechanism (bodies, joints, axes, couplers) → build (Pinocchio) → Robot
                                                                                   → coordinates (OpenSim's q ↔ Robot's q)
"""
