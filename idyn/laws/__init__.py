"""Contact laws, one file each, and their settings: a struct for each `kind`, its tag, which is a member of `AnyLaw`."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec

from idyn.contact.ground import Material
from idyn.contact.soft import Soft
from idyn.errors import ConfigError, nearest
from idyn.laws.convex import Convex
from idyn.laws.coulomb import Coulomb
from idyn.laws.enumeration import Enumeration
from idyn.laws.exact_cone import ExactCone
from idyn.laws.law import Law
from idyn.laws.mujoco import Mujoco
from idyn.laws.no_slip import NoSlip
from idyn.laws.sap import Sap
from idyn.laws.sensed import ContactFree, Sensed

Count = Annotated[int, msgspec.Meta(ge=1)]

LARGE = 1e6  # upper limit of settings that must be finite


class LawSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base class of the settings of a law. Their fields, and those of `variant`, are the arguments of `law`."""

    law: ClassVar[Callable[..., Law]]
    variant: ClassVar[dict[str, Any]] = {}

    def build(self) -> Law:
        """Return the law with these settings. Raises ConfigError for invalid values."""
        return self.law(**msgspec.structs.asdict(self), **self.variant)


class NoSlipSettings(LawSettings, frozen=True, tag="no-slip"):
    """Contacts open, or press and stick, with as much friction as that takes."""

    max_pivots: Count = 1000  # limit for one attempt
    law: ClassVar[Callable[..., Law]] = NoSlip


class CoulombSettings(LawSettings, frozen=True, tag="coulomb"):
    """Coulomb's law with a friction polygon."""

    edges: int = 4  # number of edges of the friction polygon, even, ≥ 4
    circumscribed: bool = False  # whether the polygon encloses the friction circle instead of being inscribed
    max_pivots: Count = 5000  # limit for one attempt
    law: ClassVar[Callable[..., Law]] = Coulomb


class ConvexSettings(LawSettings, frozen=True, tag="convex"):
    """The paper's quadratic program: least kinetic energy, no complementarity."""

    # edges, circumscribed: as for `coulomb`
    edges: int = 4
    circumscribed: bool = False
    backend: str = "daqp"  # an installed solver of quadratic programs
    law: ClassVar[Callable[..., Law]] = Convex


class ConvexOneStageSettings(ConvexSettings, frozen=True, tag="convex-one-stage"):
    """As `convex`, with a regularisation ε‖p‖² instead of the selection."""

    variant: ClassVar[dict[str, Any]] = {"one_stage": True}


class ConvexInfiniteSettings(ConvexSettings, frozen=True, tag="convex-infinite"):
    """As `convex`, without friction limits."""

    variant: ClassVar[dict[str, Any]] = {"infinite_friction": True}


class ConeSettings(ConvexSettings, frozen=True, tag="cone"):
    """Coulomb's law relaxed to cones: least energy of the motion at the contacts."""

    variant: ClassVar[dict[str, Any]] = {"energy": "contact"}


class ConeOneStageSettings(ConvexSettings, frozen=True, tag="cone-one-stage"):
    """As `cone`, with a regularisation ε‖p‖² instead of the selection."""

    variant: ClassVar[dict[str, Any]] = {"energy": "contact", "one_stage": True}


class ConeInfiniteSettings(ConvexSettings, frozen=True, tag="cone-infinite"):
    """As `cone`, without friction limits."""

    variant: ClassVar[dict[str, Any]] = {"energy": "contact", "infinite_friction": True}


class ContactFreeSettings(LawSettings, frozen=True, tag="contact-free"):
    """No contact forces: exact in flight, wrong in contact."""

    law: ClassVar[Callable[..., Law]] = ContactFree


class SensedSettings(LawSettings, frozen=True, tag="sensed"):
    """The contact forces that were measured."""

    delay: Count = 1  # age of the forces [measurements]; the caller stores them

    def build(self) -> Law:
        """Return the law without a measurement."""
        return Sensed()


class SapSettings(LawSettings, frozen=True, tag="sap"):
    """Round friction cones on ground of known stiffness and dissipation. The engine `sap` has the same settings."""

    stiffness: Annotated[float, msgspec.Meta(gt=0)] = 1e5  # k [N/m], > 0, inf: as rigid as the period permits
    dissipation: Annotated[float, msgspec.Meta(ge=0, le=LARGE)] = 5e-3  # τ_d [s], ≥ 0
    # β; the stiffest contact oscillates with the period β dt, dt the period of the prediction, which limits the stiffness
    beta: Annotated[float, msgspec.Meta(gt=0, le=LARGE)] = 1.0
    # σ, scale of the residual slip of sticking contacts, R_t = σ w
    sigma: Annotated[float, msgspec.Meta(gt=0, le=LARGE)] = 1e-3
    # "touching": the force of contacts with a gap > 0 is zero; "near": they may carry force within the period
    candidates: Literal["touching", "near"] = "touching"
    drift: bool = True  # whether the law includes J̇ v; false in a simulator of this scheme whose step is the period

    def build(self) -> Law:
        touching = self.candidates == "touching"
        return Sap(Material(self.stiffness, self.dissipation, self.beta, self.sigma, touching, self.drift))


class MujocoLawSettings(LawSettings, Soft, frozen=True, tag="mujoco"):
    """MuJoCo's soft contact, for robots that MuJoCo simulates with these parameters; names are MuJoCo's. The period of the
    prediction is the physics step. In a checkout `sim_harness.studies.mujoco_model.read_law` reads them.
    """

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self))  # dictionaries have no hash

    def build(self) -> Law:
        return Mujoco(self)


class ExactConeSettings(LawSettings, frozen=True, tag="exact-cone"):
    """Coulomb's law with the round friction cone."""

    law: ClassVar[Callable[..., Law]] = ExactCone


class EnumerationSettings(LawSettings, frozen=True, tag="enumeration"):
    """Coulomb's law by enumeration, at most two contacts: the basic solution nearest to the last one."""

    law: ClassVar[Callable[..., Law]] = Enumeration


AnyLaw = (
    NoSlipSettings
    | CoulombSettings
    | ExactConeSettings
    | ConvexSettings
    | ConvexOneStageSettings
    | ConvexInfiniteSettings
    | ConeSettings
    | ConeOneStageSettings
    | ConeInfiniteSettings
    | ContactFreeSettings
    | SensedSettings
    | SapSettings
    | MujocoLawSettings
    | EnumerationSettings
)

LAWS: dict[str, type[LawSettings]] = {kind.__struct_config__.tag: kind for kind in get_args(AnyLaw)}  # kind → settings


def make_law(kind: str, **settings: Any) -> Law:
    """Return the law `kind` (a key of `LAWS`) with the given settings, as in `make_law("coulomb", edges=8)`.

    Raises ConfigError for an unknown kind, naming similar ones, and for invalid settings.
    """
    if kind not in LAWS:
        raise ConfigError("law", f"no law named '{kind}'{nearest(kind, LAWS)}; the laws are {', '.join(LAWS)}")
    return LAWS[kind](**settings).build()


def law_of(law: Law | str) -> Law:
    """Return a law; for a name, the law of that name with default settings. Raises ConfigError for an unknown name."""
    return _with_defaults(law) if isinstance(law, str) else law


_with_defaults = cache(make_law)
