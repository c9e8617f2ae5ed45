"""The robot-facing service, in rooms.

protocol   what is on the wire, and what both ends hold to
robot      what runs beside the robot
log        what is written down
server     what answers: `sockets` in front, `sessions` behind them, the service in the middle

Beside the rooms lies what puts them together: `serve`, `kernels`, `loopback`, `warm_up`, `replay`.
"""
