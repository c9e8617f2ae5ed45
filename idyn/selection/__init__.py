"""Selection: among the impulses that solve a law equally well, those that minimise an objective  (generalises [ZD §6.2.4]).

A law determines v⁺, and v⁺ depends on p only through J_uᵀ p. All p of the law's face with the same J_uᵀ p are solutions, and

    τ(p) = τ* − J_aᵀ (p − p*) / dt

is affine in p, so the selection is a small convex program:

    min ½‖τ(p)‖²  |  ½‖τ(p) − τ_prev‖²  |  ½‖(p − p_prev)/dt‖²  |  ½‖p/dt − f‖²       over the face

The unknowns are forces f = p/dt [N]. `idyn.selection.few` solves problems with few contacts; `idyn.selection.many`, in time
linear in the contacts, those with many contacts and those where torque limits would be exceeded.

Limits: the face is determined with a threshold (`FACE_ZERO`). If several forces give the same torque (several points on one
rigid foot), the smallest forces are selected.
"""
