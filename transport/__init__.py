"""The service between robot and controller.

protocol   messages, their encoding and checks, the torque gate (last limit check of every torque): shared by both sides
robot      the client and the failsafe, which run beside the robot
log        logs: writing, reading, export, replay
server     sockets → service → sessions → controller
startup    what `idyn serve` starts: it combines these
bridges    robots and tools with interfaces of their own
keys       shared by both sides
"""

from idyn.siblings import find_siblings

find_siblings()
