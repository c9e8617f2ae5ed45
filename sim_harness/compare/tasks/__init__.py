"""Task controllers compared in one loop: `idyn.tasks`, and other projects in processes of their own."""
