"""Ground forces from motion alone: what a measured motion requires, and how the feet may share it.

    motion file → coordinates (idyn.motion) → joints of the robot → required wrench (frames) → forces of the feet (distribution)

`explain` takes all of the motion. `predicted` takes joint accelerations only, and finds the base's with the forces.
"""
