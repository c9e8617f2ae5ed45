"""Selection: among the impulses that solve a law equally well, those that minimise an objective  [ZD §6.2.4; MATHEMATICS
§3.5]. `idyn.selection.few` solves problems with few contacts; `idyn.selection.many`, in time linear in the contacts, the
others and those where torque limits would be exceeded. The unknowns are forces f = p/dt [N]."""
