"""Contact laws, one file each, and the table that names them."""

from collections.abc import Callable

from idyn.errors import ConfigError, nearest
from idyn.laws.contact_free import ContactFree
from idyn.laws.convex import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.enumeration import Enumeration
from idyn.laws.law import Law
from idyn.laws.no_slip import NoSlip
from idyn.laws.sensed import Sensed

LAWS: dict[str, Callable[[int, str], Law]] = {
    "no-slip": lambda edges, backend: NoSlip(),
    "coulomb": lambda edges, backend: Coulomb(edges),
    "convex": lambda edges, backend: Convex(edges=edges, backend=backend),
    "convex-one-stage": lambda edges, backend: Convex(one_stage=True, edges=edges, backend=backend),
    "convex-infinite": lambda edges, backend: Convex(infinite_friction=True, edges=edges, backend=backend),
    "cone": lambda edges, backend: Convex(energy="contact", edges=edges, backend=backend),
    "cone-one-stage": lambda edges, backend: Convex(energy="contact", one_stage=True, edges=edges, backend=backend),
    "cone-infinite": lambda edges, backend: Convex(energy="contact", infinite_friction=True, edges=edges, backend=backend),
    "contact-free": lambda edges, backend: ContactFree(),
    "sensed": lambda edges, backend: Sensed(),
    "enumeration": lambda edges, backend: Enumeration(edges),
}
"""Name → constructor from (polygon edges, QP back end)."""


def make_law(name: str, edges: int = 4, backend: str = "daqp") -> Law:
    """The law of that name. Raises ConfigError naming the nearest ones."""
    if name not in LAWS:
        raise ConfigError("law", f"no law named '{name}'{nearest(name, LAWS)}; the laws are {', '.join(LAWS)}")
    return LAWS[name](edges, backend)
