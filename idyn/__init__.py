"""Inverse dynamics with contact: contact impulses and joint torques, predicted together, with a certificate.

    from idyn import Flat, Robot, State, contacts_from_geometry, make_law, predict

Algorithms only: no sockets, no clocks. Start reading at `idyn.prediction.predict`.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idyn.batch.arrays import Batch, BatchGuess
    from idyn.batch.predict import BatchPrediction, predict_batch
    from idyn.contact.contacts import contacts_from_geometry, contacts_from_points
    from idyn.contact.ground import Ground
    from idyn.contact.terrain import Flat
    from idyn.errors import ConfigError, InputError, ModelError
    from idyn.laws import LAWS, make_law
    from idyn.model.description import ContactPoint, Description, Sole
    from idyn.model.robot import Robot
    from idyn.options import Options
    from idyn.prediction.outcomes import outcomes
    from idyn.prediction.predict import predict
    from idyn.status import Status
    from idyn.types import Consistency, ContactSet, Guess, Prediction, Residuals, Selection, State

__version__ = version("idyn")

_HOMES = {
    "idyn.batch.predict": ("BatchPrediction", "predict_batch"),
    "idyn.batch.arrays": ("Batch", "BatchGuess"),
    "idyn.contact.contacts": ("contacts_from_geometry", "contacts_from_points"),
    "idyn.model.description": ("ContactPoint", "Description", "Sole"),
    "idyn.errors": ("ConfigError", "InputError", "ModelError"),
    "idyn.contact.ground": ("Ground",),
    "idyn.prediction.predict": ("predict",),
    "idyn.laws": ("LAWS", "make_law"),
    "idyn.prediction.outcomes": ("outcomes",),
    "idyn.options": ("Options",),
    "idyn.model.robot": ("Robot",),
    "idyn.status": ("Status",),
    "idyn.contact.terrain": ("Flat",),
    "idyn.types": ("Consistency", "ContactSet", "Guess", "Prediction", "Residuals", "Selection", "State"),
}
"""Module → its public names, which are imported when they are asked for: `import idyn.status` alone stays light."""

__all__ = [  # noqa: PLE0604
    "__version__",
    *(name for names in _HOMES.values() for name in names),
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'idyn' has no attribute '{name}'; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
