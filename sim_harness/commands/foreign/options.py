"""The options of commands that take files of others: steps of simulators."""

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
