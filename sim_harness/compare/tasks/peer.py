"""A controller of another project, in a process with an interpreter of its own (`sim_harness/compare/tasks/peers`)."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import numpy as np

from idyn.contact.contacts import contacts_from_geometry
from idyn.contact.terrain import Flat
from idyn.errors import ConfigError
from idyn.model.robot import Robot
from idyn.types import Array, ContactSet
from sim_harness.compare.tasks.runs import (
    DAMPING,
    DT,
    FRICTION_MARGIN,
    LEAST_FORCE,
    PRESSING,
    STIFFNESS,
    SWINGING,
    Targets,
    TaskRun,
    TaskTick,
)

SCRIPT = Path(__file__).parent / "peers" / "serve.py"
"""Script of the other process; beside it, `NAME_controller.py` has the controller of each of `PEERS`."""


class Peer:
    """The controller of another project. It gets states and targets over pipes."""

    def __init__(
        self, name: str, python: Path, robot: Robot, stance: Array, frames: Sequence[str] = (), **fields: object
    ) -> None:
        """Start the process. python: interpreter with the project installed; frames: links whose position may be asked for
        fields: of `peers.serve.Setup`, that differ from the default

        Raises ConfigError if the process fails.
        """
        self._sizes = robot.na, len(robot.spheres.keys)
        self._name = name
        setup = _setup(robot, stance, frames) | fields
        with TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            contacts = contacts_from_geometry(robot, stance, Flat(), margin=np.inf)
            base, text = with_contact_links(robot, stance, contacts)
            path.write_text(text, encoding="utf-8")
            try:
                self._process = subprocess.Popen(
                    [python, SCRIPT, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except OSError as error:
                raise ConfigError(f"--{name}", f"expected a Python interpreter, got {python}: {error.strerror}") from error
            self._send((json.dumps(setup | {"urdf": str(path), "base": base}) + "\n").encode())
            self._received(len(b"ready\n"))

    def tick(self, q: Array, v: Array, trunk: Array, frames: Array, stands: Array, presses: float = np.nan) -> TaskTick:
        """Return the answer to a state. Its run time is the controller's own, without the exchange.

        trunk (9), frames (k, 9): position, velocity and acceleration; NaN: not asked for
        stands: which contacts touch the ground (contacts); presses: normal force that is asked for [N], NaN: none
        """
        return self._answer(q, v, trunk, frames.ravel(), stands, [presses], np.full(self._sizes[0], np.nan))

    def accelerate(self, q: Array, v: Array, demand: Array, stands: Array) -> TaskTick:
        """Return the answer to a state for demanded joint accelerations [rad/s²] (na), of a peer with `accelerates`."""
        return self._answer(q, v, np.full(9, np.nan), stands, [np.nan], demand)

    def _answer(self, *values: Array | list[float]) -> TaskTick:
        na, contacts = self._sizes
        self._send(np.concatenate(values, dtype=np.float64).tobytes())
        seconds, ok, *answer = np.frombuffer(self._received(8 * (2 + na + contacts)))
        return TaskTick(np.array(answer[:na]), np.array(answer[na:]), float(seconds), bool(ok))

    def _send(self, data: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(data)
            pipe.flush()
        except BrokenPipeError:
            self._fail()

    def _received(self, size: int) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        data = pipe.read(size)
        if len(data) < size:
            self._fail()
        return data

    def _fail(self) -> None:
        """Raise ConfigError with the last line that the process printed."""
        _, printed = self._process.communicate()
        lines = printed.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ConfigError(f"--{self._name}", f"expected an environment with {self._name} installed; it failed: {lines[-1]}")

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class PeerController:
    """The controller of another project in a run of the comparison."""

    def __init__(self, name: str, python: Path, robot: Robot, stance: Array, run: TaskRun, targets: Targets) -> None:
        """See `Peer`."""
        self._targets = targets
        fields: dict[str, object] = {"pressing": robot.spheres.keys.index(PRESSING)} | (
            {} if run.mu is None else {"mu": run.mu}
        )
        self._peer = Peer(name, python, robot, stance, (SWINGING,), **fields)

    def tick(self, k: int, q: Array, v: Array) -> TaskTick:
        t = self._targets
        foot = t.foot[k] if not t.stands[k].all() else np.full(9, np.nan)
        return self._peer.tick(q, v, t.trunk[k], foot[None], t.stands[k], float(t.presses[k]))

    def close(self) -> None:
        """End the process."""
        self._peer.close()


def with_contact_links(robot: Robot, stance: Array, contacts: ContactSet) -> tuple[str, str]:
    """Return the name of the root link, and the URDF of a robot without meshes, with a massless link `contact KEY` for each
    contact place, fixed to its link at the contact point in the stance."""
    model = ElementTree.fromstring(robot.description.urdf)
    for link in model.findall("link"):
        for tag in ("visual", "collision"):
            for each in link.findall(tag):
                link.remove(each)
    children = {joint.find("child").get("link") for joint in model.findall("joint")}  # type: ignore[union-attr]
    (root,) = (name for link in model.findall("link") if (name := str(link.get("name"))) not in children)
    links = {key: place.frame for key, place in zip(robot.spheres.keys, robot.description.contact, strict=True)}
    for key, point in zip(contacts.keys, contacts.points, strict=True):
        frame = robot.frames.placement(links[key], stance)
        offset = frame.rotation.T @ (point - frame.translation)
        ElementTree.SubElement(model, "link", name=contact_link(key))
        joint = ElementTree.SubElement(model, "joint", name=f"joint of {contact_link(key)}", type="fixed")
        ElementTree.SubElement(joint, "origin", xyz=" ".join(map(repr, offset.tolist())), rpy=_angles(frame.rotation.T))
        ElementTree.SubElement(joint, "parent", link=links[key])
        ElementTree.SubElement(joint, "child", link=contact_link(key))
    return root, ElementTree.tostring(model, encoding="unicode")


def contact_link(key: str) -> str:
    return f"contact {key}"


def _angles(R: Array) -> str:
    """Return roll, pitch and yaw of a rotation matrix as in a URDF."""
    angles = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(-R[2, 0], np.hypot(R[2, 1], R[2, 2])), np.arctan2(R[1, 0], R[0, 0])
    return " ".join(repr(float(angle)) for angle in angles)


def _setup(robot: Robot, stance: Array, frames: Sequence[str]) -> dict[str, object]:
    """Return the fields of `peers.serve.Setup` but the robot's file."""
    return {
        "contacts": [contact_link(key) for key in robot.spheres.keys],
        "frames": list(frames),
        "joints": robot.joint_names,
        "armature": robot.bodies.armature[robot.tree.a].tolist(),
        "effort": robot.limits.tau_max.tolist(),
        "angles": robot.joint_angles(stance).tolist(),
        "mu": float(robot.spheres.mu[0]),
        "margin": FRICTION_MARGIN,
        "normal": [0.0, 0.0, 1.0],
        "pressing": 0,
        "accelerates": False,
        "least": LEAST_FORCE,
        "stiffness": STIFFNESS,
        "damping": DAMPING,
        "dt": DT,
        "q": stance.tolist(),
    }
