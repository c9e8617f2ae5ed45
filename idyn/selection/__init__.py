"""Selection: among the impulses that solve a law equally well, those that minimise an objective  [ZD §6.2.4; MATHEMATICS §3.5].

The unknowns are forces f = p/dt [N]. `idyn.selection.few` solves problems with few contacts; `idyn.selection.many`, in time
linear in the contacts, those with many contacts and those where torque limits would be exceeded.

Limits: the face is determined with a threshold (`FACE_ZERO`). If several forces give the same torque (several points on one
rigid foot), the smallest forces are selected.
"""
