"""The options of all commands, without numerics: `idyn COMMAND --help` and shell completion are quick.

A function adds the options of one command to a parser; `run_NAME` of the command's module gets them.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

from controllers.config.loading import Pattern
from sim_harness import engines
from sim_harness.compare.executors import EXECUTORS
from sim_harness.compare.studies import PEERS, STUDIES


class Format(NamedTuple):
    """A format of `idyn export`. ends: of the name of its default file; content: what it has"""

    ends: str
    content: str


FORMATS = {
    "foxglove": Format(".foxglove.mcap", "robot, forces and numbers for Foxglove and PlotJuggler (default; extra 'foxglove')"),
    "rerun": Format(".rrd", "the same for rerun (extra 'rerun')"),
    "parquet": Format(".parquet", "a table with a row per tick (extra 'parquet')"),
    "messages": Format(".json.mcap", "all messages as JSON in an MCAP"),
}

LISTS = ("robots", "controllers", "server", "experiments", "scenes", "laws", "engines")
"""What `idyn list` lists, besides settings."""


def add_json(parser: ArgumentParser, what: str) -> None:
    """Add `--json`. what: is written"""
    parser.add_argument(
        "--json", metavar="FILE", help=f"write {what} as JSON to FILE; '-': to stdout, with all other output on stderr"
    )


def add_endpoint(parser: ArgumentParser) -> None:
    """Add the address of a server."""
    parser.add_argument("endpoint", nargs="?", help="address of the server (default: the socket in the user's runtime folder)")


def add_keys(parser: ArgumentParser, whose: str) -> None:
    """Add the keys of a client. whose: the role that its secret key has"""
    parser.add_argument("--secret", type=Path, metavar="FILE", help=f"secret key {whose}, for a server with [curve]")
    parser.add_argument("--server-key", metavar="KEY", help="public key of the server")


def serve(parser: ArgumentParser) -> None:
    """Run the torque server until it is stopped."""
    parser.add_argument("config", help="name or path of a server configuration")
    parser.add_argument("--endpoint", help="address to bind, ipc://… or tcp://… (default: the configuration's)")
    parser.add_argument("--robot-endpoint", help="address of the robot's own (default: the configuration's, or none)")
    parser.add_argument("--law", help="contact law (default: the configuration's)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="record all messages in this MCAP file")


def drive(parser: ArgumentParser) -> None:
    """Steer the robot of a running server from the keyboard or a gamepad."""
    add_endpoint(parser)
    parser.add_argument("--name", default="drive", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--gamepad", action="store_true", help="steer by a gamepad (extra 'gamepad')")
    add_keys(parser, "of the role 'plan'")


def plan(parser: ArgumentParser) -> None:
    """Plan the gait of the robot of a running server by model-predictive control."""
    add_endpoint(parser)
    parser.add_argument("--config", metavar="FILE.toml", help="settings of the planner (default: a trot, `idyn list settings`)")
    parser.add_argument("--velocity", nargs=3, type=float, metavar=("F", "L", "T"), help="forward, left [m/s], turn [rad/s]")
    help_text = "order of the steps (default: that of the settings)"
    parser.add_argument("--pattern", choices=get_args(Pattern), help=help_text)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="on the robot's clock (default: until Ctrl-C)")
    parser.add_argument("--name", default="plan", help="name in the server's setting `planners` (default: %(default)s)")
    add_keys(parser, "of the role 'plan'")
    add_json(parser, "the figures")


def top(parser: ArgumentParser) -> None:
    """Show the work of a running server, once per second."""
    add_endpoint(parser)
    parser.add_argument("--once", action="store_true", help="print one screen, of one second, and end")
    add_keys(parser, "of the role 'watch'")


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


def simulate(parser: ArgumentParser) -> None:
    """Simulate the robot of an experiment, or in a checkout the bodies of a scene."""
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
        f"study, in a checkout only: {', '.join(STUDIES)}, own-robots also with robots and "
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
    parser.add_argument("--robot", type=Path, metavar="FILE", help="for a matrix: the robot of this draft instead of its own")
    parser.add_argument(
        "--served", action="store_true", help="for a matrix: with a server process, in real time, slower where it is late"
    )
    parser.add_argument("--engines", metavar="NAMES", help="for 'cube-tosses': engines, separated by commas (default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="for 'cube-tosses': folder of measured data")
    parser.add_argument(
        "--parameters", type=Path, metavar="FILE", help="for 'cube-tosses': identify nothing, judge by this file"
    )
    for peer in PEERS:
        where = ", ".join(f"'{name}'" for name, study in STUDIES.items() if peer in study.options)
        parser.add_argument(
            f"--{peer}", type=Path, metavar="PYTHON", help=f"for {where}: interpreter of an environment with {peer}"
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
    for option, name in ("--tsid", "TSID"), ("--placo", "placo"):
        parser.add_argument(
            option, type=Path, metavar="PYTHON", help=f"measure {name} on the same ticks: an interpreter with it"
        )
    add_json(parser, "the figures")


def _engine(parser: ArgumentParser) -> None:
    text = f"simulation engine, with its default settings (default: the experiment's): {', '.join(engines.NAMES)}"
    parser.add_argument("--engine", metavar="NAME", help=text)


def _view(parser: ArgumentParser) -> None:
    parser.add_argument("--view", action="store_true", help="show the robot live in the browser (needs the extra viz)")


def _folder(parser: ArgumentParser, default: str, what: str) -> None:
    parser.add_argument("--out", default=default, help=f"folder for {what} (default: %(default)s, or the next free name)")


def replay(parser: ArgumentParser) -> None:
    """Compute the torques of logs again, with the same or other laws."""
    parser.add_argument(
        "logs", nargs="+", type=Path, metavar="LOG", help="a log.mcap; it may be incomplete; several with --out"
    )
    parser.add_argument(
        "--law", action="append", default=[], help="replace the contact law and print the differences; repeatable with --out"
    )
    parser.add_argument("--selection", help="replace the selection and print the differences")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for all torques, as Parquet (extra 'parquet')")
    parser.add_argument("--executor", choices=EXECUTORS, help="library that distributes the work (default: processes)")
    parser.add_argument("--jobs", type=int, metavar="N", help="number of parallel tasks (default: 1)")
    add_json(parser, "the figures")


def export(parser: ArgumentParser) -> None:
    """Convert a log for other tools: MCAP with Foxglove's schemas, rerun, Parquet, or its messages as JSON."""
    parser.add_argument("log", type=Path, help="a log.mcap; it may be incomplete")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the new file (default: beside the log)")
    formats = parser.add_mutually_exclusive_group()
    for name, form in FORMATS.items():
        text = f"{form.content}: LOG{form.ends}"
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=text)
    parser.set_defaults(format="foxglove")
    add_json(parser, "the figures")


def view(parser: ArgumentParser) -> None:
    """Write a self-contained page that shows a run in three dimensions."""
    parser.add_argument("what", type=Path, metavar="RUN|LOG", help="folder of a run, folder of run folders, or a log.mcap")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="the page (default: view.html beside the run or the log)")
    parser.add_argument("--with", dest="beside", type=Path, metavar="RUN|LOG", help="show a second run, transparent and dashed")
    parser.add_argument("--video", type=Path, metavar="FILE", help="also write a video, .mp4 or .webm (needs the extra video)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


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


def bridge(parser: ArgumentParser) -> None:
    """Connect a robot by its own interface, or a server with ROS 2."""
    kinds = parser.add_subparsers(metavar="KIND", required=True)
    _unitree(kinds.add_parser("unitree", help="Unitree's low-level interface over DDS"))
    _ros2(kinds.add_parser("ros2", help="topics of ROS 2 over DDS, without ROS"))


def _unitree(parser: ArgumentParser) -> None:
    parser.add_argument("--robot", required=True, help="name or path of its robot file, as of `idyn new`")
    parser.add_argument("--domain", type=int, default=0, help="DDS domain: 0 on a robot (default), 1 in Unitree's simulator")
    parser.add_argument("--interface", default="lo", help="network interface (default: %(default)s, this machine only)")
    parser.add_argument("--script", type=Path, metavar="FILE", help="what to do, one step per line (default: stand 10, lie)")
    parser.add_argument("--release", action="store_true", help="end the robot's own controller first; it must lie or hang")
    parser.add_argument("--connect", metavar="ENDPOINT", help="server that answers after standing up (default: none)")
    parser.add_argument("--dry-run", action="store_true", help="show the joints and the first goal; send nothing")
    parser.add_argument("--log", type=Path, metavar="FILE.mcap", help="log of the robot's messages, byte for byte")
    parser.add_argument("--yes", action="store_true", help="confirm the checklist")
    add_json(parser, "the figures")
    parser.set_defaults(command="unitree")


def _ros2(parser: ArgumentParser) -> None:
    add_endpoint(parser)
    parser.add_argument("--robot", metavar="NAME", help="name or path of the robot (default: the one the server names)")
    parser.add_argument("--name", default="ros2", help="name in the server's setting `planners` (default: %(default)s)")
    parser.add_argument("--read-only", action="store_true", help="publish only; take no commands")
    parser.add_argument("--rate", type=float, default=100.0, help="states per second that are published (default: 100)")
    parser.add_argument("--domain", type=int, help="DDS domain (default: ROS_DOMAIN_ID, or 0)")
    parser.add_argument("--interface", default="lo", help="network interface (default: %(default)s, this machine only)")
    parser.add_argument("--yes", action="store_true", help="confirm that others on the interface may command the robot")
    add_keys(parser, "of the role 'plan', or 'watch' to publish only")
    add_json(parser, "the figures")
    parser.set_defaults(command="ros2")


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
    parser.add_argument("--fixed", action="store_true", help="fix the base of a URDF to the world, also of a robot with legs")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    add_json(parser, "what was found")


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


def doctor(parser: ArgumentParser) -> None:
    """Report what this installation has, and what limits 1 kHz on this machine."""
    parser.add_argument("--ticks", type=int, default=2500, help="ticks of the round-trip test, 0: none (default: %(default)s)")
    add_json(parser, "the facts")


def keys(parser: ArgumentParser) -> None:
    """Create a key pair for a server or a client."""
    parser.add_argument("name", help="name of the files NAME.key and NAME.key_secret")
    parser.add_argument("--out", default="keys", help="folder for the files (default: %(default)s)")
    add_json(parser, "the public key and the files")


def completion(parser: ArgumentParser) -> None:
    """Print a script that completes commands and options in a shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="shell that shall complete commands and options")


class Command(NamedTuple):
    """A command. module: in `sim_harness`; add_options: its first line is the command's summary"""

    module: str
    add_options: Callable[[ArgumentParser], None]


COMMANDS = {
    "demo": Command("commands.comparisons", demo),
    "serve": Command("commands.server", serve),
    "drive": Command("commands.clients", drive),
    "plan": Command("commands.plan", plan),
    "bridge": Command("commands.bridges", bridge),
    "top": Command("commands.clients", top),
    "simulate": Command("commands.runs", simulate),
    "replay": Command("commands.logs", replay),
    "export": Command("commands.logs", export),
    "view": Command("commands.logs", view),
    "compare": Command("commands.comparisons", compare),
    "judge": Command("commands.runs", judge),
    "pauses": Command("studies.commands", pauses),
    "bench": Command("studies.commands", bench),
    "conform": Command("commands.server", conform),
    "doctor": Command("commands.setup", doctor),
    "check": Command("commands.setup", check),
    "list": Command("commands.setup", list_),
    "new": Command("commands.setup", new),
    "keys": Command("commands.tools", keys),
    "completion": Command("commands.tools", completion),
}
"""Commands by name, as in `idyn NAME`."""
