"""The options of the commands that run simulations, comparisons and measurements."""

from argparse import ArgumentParser
from pathlib import Path

from sim_harness.commands.shared_options import EXECUTORS, add_json, add_keys
from sim_harness.compare.studies import STUDIES

ENGINES = ("lcp", "penalty", "dissipation", "no-slip", "viscous", "sap", "first-order", "newton", "mujoco")
"""Names of the simulation engines."""

PEERS = ("tsid", "placo")
"""Other projects that `idyn compare tasks` runs, and the first of them `contact-models`."""


def simulate(parser: ArgumentParser) -> None:
    """Simulate the robot of an experiment, or the bodies of a scene."""
    parser.add_argument("experiment", help="name or path of an experiment or a scene; or a robot, as for `idyn new`")
    parser.add_argument("--connect", metavar="ENDPOINT", help="address of a running `idyn serve` (default: in this process)")
    add_keys(parser, "of this robot")
    parser.add_argument("--seconds", type=float, help="simulated time (default: the experiment's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the data of `idyn view`, a subfolder per run")
    _engine(parser)
    _view(parser)
    add_json(parser, "the summaries")


def demo(parser: ArgumentParser) -> None:
    """Let a simulated robot walk with every contact law."""
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--seconds", type=float, help="simulated time per law (default: the experiment's)")
    _folder(parser, "runs/demo", "the results")
    _engine(parser)
    _view(parser)
    add_json(parser, "the summaries")


def compare(parser: ArgumentParser) -> None:
    """Compare controllers with the paper's numbers, engines on scenes, or recorded logs."""
    parser.add_argument(
        "what",
        nargs="*",
        help="comparisons by name or path, or 'paper' for all of the paper; or scenes, or 'engines' for all scenes; or a "
        f"study, most of them in a checkout of the repository only: {', '.join(STUDIES)}, own-robots also with robots and "
        "folders of URDFs behind it, unitree with the folder of Unitree's simulator, and perhaps a scene of it, delays or g1; "
        "or log.mcap files",
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel runs (default: %(default)s)")
    parser.add_argument("--seeds", type=int, help="runs per controller and scene (default: the comparison's)")
    parser.add_argument("--seconds", type=float, help="simulated time per run (default: the experiment's)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/compare"), help="folder for the results; finished runs in it are reused"
    )
    parser.add_argument(
        "--executor", default="processes", choices=EXECUTORS, help="library that distributes the runs (default: %(default)s)"
    )
    parser.add_argument("--no-logs", action="store_true", help="do not write an MCAP log per run (2 MB per second)")
    parser.add_argument("--engines", metavar="NAMES", help="for 'cube-tosses': engines, separated by commas (default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="for 'cube-tosses': folder of measured data")
    parser.add_argument(
        "--parameters", type=Path, metavar="FILE", help="for 'cube-tosses': identify nothing, judge by this file"
    )
    for name, where in zip(PEERS, ("'tasks', 'contact-models'", "'tasks'"), strict=True):
        parser.add_argument(
            f"--{name}", type=Path, metavar="PYTHON", help=f"for {where}: interpreter of an environment with {name}"
        )
    add_json(parser, "the claims or the figures of the logs")


def pauses(parser: ArgumentParser) -> None:
    """Stop the server's or the robot's process during a trot and report the outcome."""
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--law", default="coulomb", help="contact law of the server (default: %(default)s)")
    parser.add_argument(
        "--milliseconds",
        type=int,
        nargs="+",
        default=[30, 150, 500],
        metavar="MS",
        help="durations of the pauses (default: 30 150 500)",
    )
    _folder(parser, "runs/pauses", "the report")
    add_json(parser, "the outcomes")


def bench(parser: ArgumentParser) -> None:
    """Measure run times of the contact laws and of the server on this machine."""
    parser.add_argument("--robot", default="quadruped", help="name or path of a robot (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5000, help="predictions per measured figure (default: %(default)s)")
    parser.add_argument("--ticks", type=int, default=20000, help="server ticks to measure, at 1 kHz (default: %(default)s)")
    parser.add_argument("--no-server", action="store_true", help="measure the laws, derivatives and tasks only")
    parser.add_argument("--batch", action="store_true", help="measure only batches of predictions and of simulated worlds")
    parser.add_argument(
        "--tsid", type=Path, metavar="PYTHON", help="measure TSID on the same ticks: an interpreter that has it"
    )
    add_json(parser, "the figures")


def _engine(parser: ArgumentParser) -> None:
    text = f"simulation engine, with its default settings (default: the experiment's): {', '.join(ENGINES)}"
    parser.add_argument("--engine", metavar="NAME", help=text)


def _view(parser: ArgumentParser) -> None:
    parser.add_argument("--view", action="store_true", help="show the robot live in the browser (needs the extra viz)")


def _folder(parser: ArgumentParser, default: str, what: str) -> None:
    parser.add_argument("--out", default=default, help=f"folder for {what} (default: %(default)s, or the next free name)")
