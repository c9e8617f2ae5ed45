"""`python -m idyn`: the command line `idyn`, whose code is in `sim_harness.commands`."""

import sys
from importlib import import_module

sys.exit(import_module("sim_harness.commands.main").main())
