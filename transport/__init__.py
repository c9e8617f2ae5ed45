"""The service between robot and controller.

protocol   messages, their encoding and checks, the torque gate (last limit check of every torque): shared by both sides
robot      the client and the failsafe, which run beside the robot
log        logs: writing, reading, export, migration of settings
server     sockets → service → sessions → controller

Modules that combine these: `serve`, `kernels`, `loopback`, `warm_up`, `replay`. Shared by both sides: `keys`, `realtime`.
"""

from idyn.siblings import find_siblings

find_siblings()
