"""The options of commands that take files of others: steps of simulators, motions of persons."""

from argparse import ArgumentParser
from pathlib import Path

from sim_harness.commands.shared_options import add_json


def judge(parser: ArgumentParser) -> None:
    """Judge steps of any simulator: laws violated and by how much, energy, a certified answer beside them."""
    parser.add_argument(
        "what", nargs="+", help="files of steps (.npz, .json), FCLib problems (.hdf5), log.mcap files; or scenes, or 'engines'"
    )
    parser.add_argument(
        "--law", default="exact-cone", help="law of the answer: exact-cone, coulomb or no-slip (default: %(default)s)"
    )
    parser.add_argument("--tolerance", type=float, default=1e-6, help="largest error of a speed [m/s] (default: %(default)s)")
    parser.add_argument("--every", type=int, default=1, help="judge every n-th step of a file (default: 1)")
    parser.add_argument("--seconds", type=float, default=0.5, help="simulated time of a scene [s] (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("runs/judge"), help="folder for the report (default: %(default)s)")
    add_json(parser, "the verdicts")


def explain(parser: ArgumentParser) -> None:
    """Find ground forces and joint moments of a person from a motion file alone."""
    parser.add_argument("motion", nargs="+", type=Path, metavar="MOTION", help="a .mot or .sto with the model's coordinates")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="the person as an OpenSim model, .osim")
    parser.add_argument("--predicted", action="store_true", help="use joint accelerations only, not those of the base")
    parser.add_argument("--cutoff", type=float, metavar="HZ", help="of the low-pass filter (default: by cadence; walking: 5)")
    parser.add_argument("--order", type=int, default=2, help="of this filter, applied twice (default: %(default)s)")
    parser.add_argument("--mu", type=float, default=0.8, help="friction coefficient (default: %(default)s)")
    parser.add_argument("--floor", type=float, metavar="M", help="height of the floor (default: found from the motion)")
    parser.add_argument("--plates", type=Path, metavar="FILE", help="measured forces, .mot, to be shown beside those found")
    parser.add_argument("--view", action="store_true", help="also write a page in three dimensions (needs the extra viz)")
    parser.add_argument("--out", type=Path, default=Path("runs/explain"), help="folder for the files (default: %(default)s)")
    add_json(parser, "the figures")
