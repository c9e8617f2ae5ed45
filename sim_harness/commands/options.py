"""The options of all commands. This module imports no numerics: `idyn COMMAND --help` and shell completion are quick.

A function has the name of its command (`warm_up` is `idyn warm-up`) and adds its options to a parser. `run` of the module with
the same name, or of the one that the function sets as `module`, gets them.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from sim_harness.commands.bridges.options import bridge
from sim_harness.commands.foreign.options import explain, judge
from sim_harness.commands.shared_options import add_addresses, add_endpoint, add_json, add_keys

ENGINES = ("lcp", "penalty", "dissipation", "no-slip", "viscous", "sap", "first-order", "newton", "mujoco")
"""Names of the simulation engines."""

EXECUTORS = ("processes", "joblib", "dask", "ray")
"""Libraries that distribute the runs of a comparison, and the replay of many logs."""

FORMATS = (
    ("foxglove", "LOG.foxglove.mcap", "robot, forces and numbers for Foxglove and PlotJuggler (default; extra 'foxglove')"),
    ("rerun", "LOG.rrd", "the same for rerun (extra 'rerun')"),
    ("parquet", "LOG.parquet", "a table with a row per tick (extra 'parquet')"),
    ("messages", "LOG.json.mcap", "all messages as JSON in an MCAP"),
)
"""Formats of `idyn export`: name, default file, content."""

LISTS = ("robots", "controllers", "server", "experiments", "scenes", "laws", "engines")
"""What `idyn list` lists, besides settings."""

PEERS = ("tsid", "placo")
"""Other projects that `idyn compare tasks` runs."""

STUDIES = (
    *("sap-study", "newton-study", "first-order-study", "cone-study", "mujoco-law", "tasks"),
    *("own-robots", "unitree", "cube-tosses", "human-walk"),
)
"""Studies of `idyn compare`."""


def demo(parser: ArgumentParser) -> None:
    """Let a simulated robot walk with every contact law."""
    parser.add_argument("experiment", nargs="?", default="demo", help="name or path of an experiment (default: demo)")
    parser.add_argument("--seconds", type=float, help="simulated time per law (default: the experiment's)")
    _folder(parser, "runs/demo", "the results")
    _engine(parser)
    _view(parser)
    add_json(parser, "the summaries")


def serve(parser: ArgumentParser) -> None:
    """Run the torque server until it is stopped."""
    parser.add_argument("config", help="name or path of a server configuration")
    add_addresses(parser)
    parser.add_argument("--law", help="contact law (default: the configuration's)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="record all messages in this MCAP file")


def drive(parser: ArgumentParser) -> None:
    """Steer the robot of a running server from the keyboard or a gamepad."""
    add_endpoint(parser)
    parser.add_argument("--name", default="drive", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--gamepad", action="store_true", help="steer by a gamepad (extra 'gamepad')")
    add_keys(parser, "of the role 'plan'")


def top(parser: ArgumentParser) -> None:
    """Show the work of a running server, once per second."""
    add_endpoint(parser)
    parser.add_argument("--once", action="store_true", help="print one screen, of one second, and end")
    add_keys(parser, "of the role 'watch'")


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


def replay(parser: ArgumentParser) -> None:
    """Compute the torques of logs again, with the same or other laws."""
    parser.add_argument(
        "logs", nargs="+", type=Path, metavar="LOG", help="a log.mcap; it may be incomplete; several with --out"
    )
    parser.add_argument(
        "--law", action="append", default=[], help="replace the contact law and print the differences; repeatable with --out"
    )
    parser.add_argument("--selection", help="replace the selection and print the differences")
    parser.add_argument("--explain", action="store_true", help="also tell in which ticks other motions obey the law, too")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for all torques, as Parquet (extra 'parquet')")
    parser.add_argument("--executor", choices=EXECUTORS, help="library that distributes the work (default: processes)")
    parser.add_argument("--jobs", type=int, metavar="N", help="number of parallel tasks (default: 1)")
    parser.add_argument("--window", type=int, metavar="TICKS", help="ticks of a file of the results (default: 20000)")
    parser.add_argument(
        "--lead-in", type=int, metavar="TICKS", help="begin each window this many ticks earlier (default: with the log)"
    )
    add_json(parser, "the figures")


def export(parser: ArgumentParser) -> None:
    """Convert a log for other tools: MCAP with Foxglove's schemas, rerun, Parquet, or its messages as JSON."""
    _log(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: beside the log)")
    formats = parser.add_mutually_exclusive_group()
    for name, file, what in FORMATS:
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=f"{what}: {file}")
    parser.set_defaults(format=FORMATS[0][0])
    add_json(parser, "the figures")


def view(parser: ArgumentParser) -> None:
    """Write a self-contained page that shows a run in three dimensions."""
    parser.add_argument("what", type=Path, metavar="RUN|LOG", help="folder of a run, folder of run folders, or a log.mcap")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page (default: view.html beside the run or the log)")
    parser.add_argument("--with", dest="beside", type=Path, metavar="RUN|LOG", help="show a second run, transparent and dashed")
    parser.add_argument("--video", type=Path, metavar="FILE", help="also write a video, .mp4 or .webm (needs the extra video)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def compare(parser: ArgumentParser) -> None:
    """Compare controllers with the paper's numbers, engines on scenes, or recorded logs."""
    parser.add_argument(
        "what",
        nargs="*",
        help="comparisons by name or path, or 'paper' for all of the paper; or scenes, or 'engines' for all scenes; or one of "
        f"{', '.join(STUDIES)}, own-robots also with robots and folders of URDFs behind it, unitree with the folder of "
        "Unitree's simulator, and perhaps a scene of it, delays or g1; or log.mcap files",
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
    parser.add_argument("--data", type=Path, metavar="DIR", help="for 'cube-tosses', 'human-walk': folder of measured data")
    parser.add_argument(
        "--parameters", type=Path, metavar="FILE", help="for 'cube-tosses': identify nothing, judge by this file"
    )
    for name in PEERS:
        parser.add_argument(
            f"--{name}", type=Path, metavar="PYTHON", help=f"for 'tasks': interpreter of an environment with {name}"
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


def conform(parser: ArgumentParser) -> None:
    """Try a foreign server or client against the rules of the wire protocol."""
    parser.add_argument("endpoint", nargs="?", help="address of the server to try")
    parser.add_argument(
        "--robot",
        metavar="CMD",
        help="command of the client to try; {} in it, and IDYN_ENDPOINT in its environment, are the address of its server",
    )
    parser.add_argument("--config", default="quadruped", help="server configuration of the robot (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="try only rules that contain this text")
    add_json(parser, "the outcomes")


def doctor(parser: ArgumentParser) -> None:
    """Report what this installation has, and what limits 1 kHz on this machine."""
    parser.add_argument("--ticks", type=int, default=2500, help="ticks of the round-trip test, 0: none (default: %(default)s)")
    add_json(parser, "the facts")


def check(parser: ArgumentParser) -> None:
    """Check a configuration, a URDF, or the states of a log."""
    parser.add_argument("what", help="name or path of a configuration, path of a URDF or of a log.mcap")
    parser.add_argument("--every", type=int, default=10, metavar="N", help="check each N-th state of a log (default: 10)")
    parser.add_argument(
        "--samples", type=int, default=60, help="searches per state with more than four contacts (default: %(default)s)"
    )
    parser.add_argument("--fixed", action="store_true", help="treat the base of a URDF as fixed instead of floating")
    parser.add_argument("--hello", action="store_true", help="print, as JSON, hello, stance and contacts of a client")
    add_json(parser, "the findings")


def list_(parser: ArgumentParser) -> None:
    """List robots, laws, engines, experiments, scenes, and all settings with their meaning."""
    parser.add_argument(
        "what", nargs="?", choices=[*LISTS, "settings"], help=f"{', '.join(LISTS)} or settings (default: all names)"
    )
    parser.add_argument("text", nargs="?", default="", help="show only entries that contain this text")
    add_json(parser, "the list")


def new(parser: ArgumentParser) -> None:
    """Write a configuration for a robot from its URDF or MJCF."""
    parser.add_argument(
        "robot",
        help="path of a URDF or MJCF, example-robot-data:<path below its robots folder>, robot_descriptions:<name>, or a name "
        "of either collection",
    )
    parser.add_argument("--srdf", type=Path, metavar="FILE", help="take the standing pose from this file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: NAME.toml in this folder)")
    parser.add_argument("--stand", action="store_true", help="let a robot with four legs stand instead of trot")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser, "what was found")


def keys(parser: ArgumentParser) -> None:
    """Create a key pair for a server or a client."""
    parser.add_argument("name", help="name of the files NAME.key and NAME.key_secret")
    parser.add_argument("--out", default="keys", help="folder for the files (default: %(default)s)")
    add_json(parser, "the public key and the files")


def warm_up(parser: ArgumentParser) -> None:
    """Compile all kernels of a server into the cache, for images and CI."""
    parser.add_argument("config", nargs="?", default="quadruped", help="server configuration (default: quadruped)")
    add_json(parser, "the duration")


def completion(parser: ArgumentParser) -> None:
    """Print a script that completes commands and options in a shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="shell that shall complete commands and options")


def _engine(parser: ArgumentParser) -> None:
    text = f"simulation engine, with its default settings (default: the experiment's): {', '.join(ENGINES)}"
    parser.add_argument("--engine", metavar="NAME", help=text)


def _view(parser: ArgumentParser) -> None:
    parser.add_argument("--view", action="store_true", help="show the robot live in the browser (needs the extra viz)")


def _folder(parser: ArgumentParser, default: str, what: str) -> None:
    parser.add_argument("--out", default=default, help=f"folder for {what} (default: %(default)s, or the next free name)")


def _log(parser: ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="a log.mcap; it may be incomplete")


COMMANDS: dict[str, Callable[[ArgumentParser], None]] = {
    "demo": demo,
    "serve": serve,
    "drive": drive,
    "bridge": bridge,
    "top": top,
    "simulate": simulate,
    "replay": replay,
    "export": export,
    "view": view,
    "compare": compare,
    "judge": judge,
    "explain": explain,
    "pauses": pauses,
    "bench": bench,
    "conform": conform,
    "doctor": doctor,
    "check": check,
    "list": list_,
    "new": new,
    "keys": keys,
    "warm-up": warm_up,
    "completion": completion,
}
"""Name of each command, as in `idyn NAME`, and what adds its options; its first line is the command's summary."""
