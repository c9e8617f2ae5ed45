"""The choice among impulses that solve a law equally well; begin with `idyn.selection.choose`."""
