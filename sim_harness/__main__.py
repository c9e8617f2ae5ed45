"""`python -m sim_harness`: the command line `idyn`."""

import sys

from sim_harness.commands.main import main

sys.exit(main())
