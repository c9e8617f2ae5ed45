"""Selection: choice among equivalent impulses by an objective. Begin with `idyn.selection.choose`."""
