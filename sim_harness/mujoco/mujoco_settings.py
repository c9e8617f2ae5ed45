"""Settings of the MuJoCo world. Names are MuJoCo's where it has the same setting."""

from typing import Literal

from controllers.config.loading import Kind, NonNegative, Positive
from idyn.laws import MujocoLawSettings

GROUNDS = {"default": 0.02, "firm": 0.005, "stiff": 0.002}
"""Time constants of named grounds [s]: MuJoCo's default, a laboratory floor, the stiffest ground for steps of 1 ms."""


class MujocoSettings(Kind, frozen=True, tag="mujoco"):
    """MuJoCo: its contact model, solver and integration."""

    # compliance of all contacts, a row of `GROUNDS`: critically damped with that time constant
    ground: Literal["default", "firm", "stiff"] = "default"
    # replaces `ground`: (time constant [s], damping ratio), or MuJoCo's direct form (−stiffness, −damping)
    solref: tuple[float, float] | None = None
    # solref of the friction of all contacts; None: that of the normal force. With a larger time constant contacts bounce less
    # while they slide
    solreffriction: tuple[float, float] | None = None
    # impedance of all contacts: (smallest, largest, width [m], midpoint, power)
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    cone: Literal["elliptic", "pyramidal"] = "elliptic"  # type of the friction cone
    impratio: Positive = 1.0  # ratio of friction to normal impedance; larger values reduce creep
    # 3: contacts with sliding friction; 4: also against turning about the normal; 6: also against rolling
    condim: Literal[3, 4, 6] = 3
    # spin, roll: friction against turning about the normal and about the tangents: largest moment per normal force [m]
    spin: Positive = 0.005
    roll: Positive = 0.0001
    integrator: Literal["Euler", "implicit", "implicitfast"] = "Euler"  # MuJoCo's integrator
    timestep: Positive = 0.001  # longest physics step [s]; a control period is divided into equal steps no longer than this
    tolerance: NonNegative = 1e-8  # of MuJoCo's solver; 0: as far as it converges, in at most 200 iterations

    def __post_init__(self) -> None:
        first, second = self.contact_solref
        if not (first > 0 and second > 0) and not (first < 0 and second <= 0):
            raise ValueError(f"solref: expected two numbers > 0, or a stiffness < 0 and a damping ≤ 0, got {first}, {second}")
        if 0 < first < 2 * self.timestep:
            raise ValueError(f"solref: expected a time constant of at least two time steps of {self.timestep} s, got {first} s")

        if self.solreffriction is not None and not min(self.solreffriction) > 0.0:
            raise ValueError(f"solreffriction: expected a time constant [s] and a damping ratio > 0, got {self.solreffriction}")

    @property
    def contact_solref(self) -> tuple[float, float]:
        """Return solref of all contacts."""
        return (GROUNDS[self.ground], 1.0) if self.solref is None else self.solref


def differences(law: object, engine: object, period: float) -> list[str]:
    """Return how contact parameters of a law `mujoco` differ from those of a world `mujoco`: for each its name, the law's value
    and the world's; [] for other laws and worlds. period: control period [s]"""
    if not isinstance(law, MujocoLawSettings) or not isinstance(engine, MujocoSettings):
        return []
    pairs: list[tuple[str, object, object]] = [("cone", law.cone, engine.cone), ("impratio", law.impratio, engine.impratio)]
    contacts = {"contact": law.contact} | {f"contacts.{name}": contact for name, contact in law.contacts.items()}
    for name, contact in contacts.items():
        pairs += [
            (f"{name}.solref", contact.solref, engine.contact_solref),
            (f"{name}.solreffriction", contact.solreffriction, engine.solreffriction or (0.0, 0.0)),
            (f"{name}.solimp", contact.solimp, engine.solimp),
            (f"{name}.condim", contact.condim, engine.condim),
        ]
        if engine.condim > 3:
            pairs.append((f"{name}.spin", contact.spin, engine.spin))
        if engine.condim > 4:
            pairs.append((f"{name}.roll", contact.roll, engine.roll))
    found = [f"{name} = {own}, in the world {other}" for name, own, other in pairs if own != other]
    if (engine.integrator == "implicit") != (law.integrator == "implicit"):
        found.append(
            f"integrator = {law.integrator}, in the world {engine.integrator}: forces agree, joint accelerations do not"
        )
    if engine.timestep < period:
        found.append(f"physics steps of {engine.timestep:g} s; the law predicts one step of {period:g} s")
    return found
