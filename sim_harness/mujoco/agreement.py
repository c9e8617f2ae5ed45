"""Whether the law `mujoco` describes the world `mujoco` in which it is used."""

from idyn.laws.settings import MujocoLawSettings
from sim_harness.mujoco.settings import MujocoSettings


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
