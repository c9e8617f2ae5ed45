"""Inverse dynamics with contact: joint torques and contact forces, predicted together, with a certificate.

    import numpy as np
    from idyn import Flat, Robot, Sole, State, contacts_from_geometry, make_law, predict

    feet = Sole(frame="left_foot", length=0.2, width=0.1).corners() + Sole(frame="right_foot", length=0.2, width=0.1).corners()
    robot = Robot.from_urdf("robot.urdf", contact=feet)
    state = State(q=robot.neutral(), v=np.zeros(robot.nv))
    contacts = contacts_from_geometry(robot, state.q, Flat(), margin=0.002)
    prediction = predict(robot, state, contacts, np.zeros(robot.na), law=make_law("coulomb"), dt=0.001)
    print(prediction.status, prediction.tau, prediction.force)

Robot
    Robot                   model of a URDF: sizes, joints, limits, contact places, dynamics terms
    Description             what a Robot is built from: URDF text, base, contact places, motors, limits
    ContactPoint, Sole      contact places: a sphere, or a rectangular sole with four corners
    load_robot              robot and standing configuration of a configuration file
    Robot.frames            poses, Jacobians and velocities of frames; centre of mass and momentum
    State                   configuration q and velocity v

Contacts
    ContactSet              contact points, normals, friction coefficients, gaps and keys
    contacts_from_geometry  contacts of the robot's contact places with a terrain and with boxes
    contacts_from_points    contacts at given points
    contacts_of_places      contacts of feet that are known to touch, as foot switches report
    Flat                    horizontal plane as terrain
    Ground                  contact compliance model

Prediction
    predict                 torques and contact forces that realise joint accelerations
    make_law, LAWS          a contact law by name with settings; names and settings of all laws
    Options                 settings of a prediction other than the law
    Selection               objective of the choice among equivalent impulses
    Consistency             treatment of demands that no contact impulse can realise
    Guess                   warm start for the next tick, from `Prediction.guess`
    Prediction              result: torques, forces, velocity, status, residuals
    Status, Residuals       outcome of a prediction; residuals of its certificate
    derivatives, Derivatives  of a prediction by demand, state, friction and preferred forces
    idyn.tasks              `predict_tasks`: frames, centre of mass, momentum, posture and contact forces as tasks
    outcomes                other solutions of forward dynamics under the same torques
    all_outcomes            all of them for up to four contacts, or the proof that there is one

Many predictions in one call
    predict_batch           `predict` for each member of a batch, on several threads
    Batch                   states, contacts and demands of the members
    BatchPrediction         results, one row for each member
    BatchGuess              warm start for the next batch

Clients of a server
    RobotClient             sends states and receives torques; `hello_for` gives its first message
    StateMessage, Contact   a state for the server, and a contact or foot switch in it
    Failsafe, drive_command, limits_of   the torques of the robot's side between answers
    PlannerClient           commands the velocity of the base from a process of its own
    GaitChange              the gait that a command asks for
    client_keys             keys for a server with access control

Controllers
    load_controller         the controller of a configuration file: states in, torques out, without a server

Errors
    InputError              an array is malformed: wrong shape or type, NaN or infinite, not normalised
    ModelError              a robot model cannot be loaded
    ConfigError             a setting is invalid
    KernelError             the library of kernels cannot be used
    ConnectionFailed        a server does not answer
    CommandRefused          a server refuses a planner's command

`help(idyn.Robot)` and so on print the details. The package contains algorithms only: no files, sockets or clocks;
`load_robot` and the clients belong to `controllers` and `transport`. To read the code begin at `idyn.prediction.predict`.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from idyn.siblings import check_sibling, find_siblings

if TYPE_CHECKING:
    from controllers.build import load_controller
    from controllers.command import GaitChange
    from controllers.robot.load import load_robot
    from idyn.batch.arrays import Batch, BatchGuess
    from idyn.batch.predict import BatchPrediction, predict_batch
    from idyn.contact.contacts import contacts_from_geometry, contacts_from_points, contacts_of_places
    from idyn.contact.ground import Ground
    from idyn.contact.terrain import Flat
    from idyn.differentiation.derivatives import Derivatives, derivatives
    from idyn.errors import ConfigError, InputError, KernelError, ModelError
    from idyn.laws import LAWS, make_law
    from idyn.model.description import ContactPoint, Description, Sole
    from idyn.model.robot import Robot
    from idyn.options import Options
    from idyn.prediction.outcomes import all_outcomes, outcomes
    from idyn.prediction.predict import predict
    from idyn.status import Status
    from idyn.types import Consistency, ContactSet, Guess, Prediction, Residuals, Selection, State
    from transport.keys import client_keys
    from transport.protocol.messages.state import Contact, StateMessage
    from transport.protocol.torque_gate import limits_of
    from transport.robot.client import ConnectionFailed, RobotClient, hello_for
    from transport.robot.failsafe import Failsafe, drive_command
    from transport.robot.planner import CommandRefused, PlannerClient

__all__ = [
    "LAWS",
    "Batch",
    "BatchGuess",
    "BatchPrediction",
    "CommandRefused",
    "ConfigError",
    "ConnectionFailed",
    "Consistency",
    "Contact",
    "ContactPoint",
    "ContactSet",
    "Derivatives",
    "Description",
    "Failsafe",
    "Flat",
    "GaitChange",
    "Ground",
    "Guess",
    "InputError",
    "KernelError",
    "ModelError",
    "Options",
    "PlannerClient",
    "Prediction",
    "Residuals",
    "Robot",
    "RobotClient",
    "Selection",
    "Sole",
    "State",
    "StateMessage",
    "Status",
    "__version__",
    "all_outcomes",
    "client_keys",
    "contacts_from_geometry",
    "contacts_from_points",
    "contacts_of_places",
    "derivatives",
    "drive_command",
    "hello_for",
    "limits_of",
    "load_controller",
    "load_robot",
    "make_law",
    "outcomes",
    "predict",
    "predict_batch",
]

find_siblings()

_MODULES = {
    "idyn.batch.arrays": ("Batch", "BatchGuess"),
    "idyn.batch.predict": ("BatchPrediction", "predict_batch"),
    "controllers.build": ("load_controller",),
    "controllers.command": ("GaitChange",),
    "controllers.robot.load": ("load_robot",),
    "idyn.contact.contacts": ("contacts_from_geometry", "contacts_from_points", "contacts_of_places"),
    "idyn.contact.ground": ("Ground",),
    "idyn.contact.terrain": ("Flat",),
    "idyn.errors": ("ConfigError", "InputError", "KernelError", "ModelError"),
    "idyn.laws": ("LAWS", "make_law"),
    "idyn.model.description": ("ContactPoint", "Description", "Sole"),
    "idyn.model.robot": ("Robot",),
    "idyn.options": ("Options",),
    "idyn.differentiation.derivatives": ("Derivatives", "derivatives"),
    "idyn.prediction.outcomes": ("all_outcomes", "outcomes"),
    "idyn.prediction.predict": ("predict",),
    "idyn.status": ("Status",),
    "idyn.types": ("Consistency", "ContactSet", "Guess", "Prediction", "Residuals", "Selection", "State"),
    "transport.keys": ("client_keys",),
    "transport.protocol.messages.state": ("Contact", "StateMessage"),
    "transport.protocol.torque_gate": ("limits_of",),
    "transport.robot.client": ("ConnectionFailed", "RobotClient", "hello_for"),
    "transport.robot.failsafe": ("Failsafe", "drive_command"),
    "transport.robot.planner": ("CommandRefused", "PlannerClient"),
}
"""Module → its public names, imported at first use: `import idyn.status` does not load Pinocchio."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("idyn")
    for module, names in _MODULES.items():
        if name in names:
            check_sibling(module)
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'idyn' has no attribute '{name}'; its public names are {', '.join(__all__)}")


def __dir__() -> list[str]:
    """Return the public names; an empty list to pydoc, as `help(idyn)` would print the inherited methods of each class:
    3000 lines."""
    frame = sys._getframe(1)
    for _ in range(3):  # pydoc.docmodule → inspect.getmembers → dir
        if frame.f_code.co_name == "docmodule":
            return []
        if frame.f_back is None:
            break
        frame = frame.f_back
    return sorted(__all__)
