"""Numbers of settings as fields of an array record, so that kernels read them by the names of the settings."""

from typing import TYPE_CHECKING

import msgspec

from controllers.config.loading import Settings
from controllers.config.tables import members_of
from idyn.library.records import NUMBERS, ArrayRecord


class Numbers(ArrayRecord):
    """The settings of one struct that are a number or a bool. A subclass names the struct:

    class StepNumbers(Numbers, settings=StepSettings): ...
    """

    def __init_subclass__(cls, settings: type[Settings]) -> None:
        kinds = {field.name: list(members_of(field.type)) for field in msgspec.structs.fields(settings)}
        cls.__annotations__ = {name: kind[0] for name, kind in kinds.items() if len(kind) == 1 and kind[0] in NUMBERS}
        super().__init_subclass__()

    def __init__(self, settings: Settings) -> None:
        self.put(**{name: getattr(settings, name) for name in self.FIELDS})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float: ...
