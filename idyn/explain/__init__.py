"""Ground forces from motion alone: what a measured motion requires, and how the feet may share it.

    from idyn.explain import explain, load_walker, predict_forces
    from idyn.motion import read_table

    walker, motion = load_walker("subject01.osim"), read_table("walk_ik.mot")
    found = explain(walker, motion)
    found.force("calcn_r"); found.pressure("calcn_r"); found.residual; found.moments

Entry       explain: all of the motion in; predict_forces: joint accelerations in    `idyn.explain.explanation`, `.predicted`
Settings    Settings with Distribution and Soles; Softness                           `idyn.explain.distribution`, `.soles`
Answer      Explanation; force_table, moment_table: as OpenSim's files               `idyn.explain.explanation`

    motion file → coordinates (idyn.motion) → joints of the robot → required wrench (frames) → forces of the feet (distribution)

To read the code begin at `idyn.explain.explanation`.
"""

from idyn.explain.distribution import Distribution
from idyn.explain.explanation import Explanation, Settings, Walker, explain, force_table, load_walker, moment_table
from idyn.explain.predicted import Softness, predict_forces
from idyn.explain.soles import Soles

__all__ = [
    "Distribution",
    "Explanation",
    "Settings",
    "Softness",
    "Soles",
    "Walker",
    "explain",
    "force_table",
    "load_walker",
    "moment_table",
    "predict_forces",
]
