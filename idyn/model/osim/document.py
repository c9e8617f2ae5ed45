"""The XML of an `.osim` file: parsed within bounds; every error names the line and the element."""

from typing import NoReturn
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from idyn.errors import ModelError
from idyn.model.lines import lines_of
from idyn.model.osim.older import modernise
from idyn.types import Array

MAX_CHARACTERS = 32 * 1024 * 1024
"""Length of a file; models with a hundred muscles have 2 million characters."""

MAX_NESTING = 60
"""Nesting of XML elements; a model has about 15 levels."""

MAX_NUMBERS = 10_000
"""Numbers in one element."""

OLDEST_VERSION, SOCKETS = 20_000, 40_000
"""`Version` of the oldest files that are read, and of the first that describe joints by sockets and offset frames."""

ROOT = "OpenSimDocument"

SKIPPED = (("<?", "?>"), ("<!--", "-->"), ("<!", ">"))
"""Beginning and end of what may stand before the root element."""


def is_osim(text: str) -> bool:
    """Return whether the text of a model is an `.osim`, by its root element."""
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] == "\ufeff"):
            at += 1
        ends = [end for begin, end in SKIPPED if text.startswith(begin, at)]
        if not ends:
            return text.startswith("<" + ROOT, at)
        found = text.find(ends[0], at)
        if found < 0:
            return False
        at = found + len(ends[0])


class Document:
    """A parsed `.osim` file. model: its element `Model`"""

    def __init__(self, text: str, source: str) -> None:
        """Parse the text. source: origin of the text, for messages

        Raises ModelError for a text that is no such XML, too long, nested too deeply, or too old.
        """
        self._text, self._source = text, source
        if len(text) > MAX_CHARACTERS:
            raise ModelError(f"{source}: expected at most {MAX_CHARACTERS} characters, got {len(text)}")
        try:
            self._root = ElementTree.fromstring(text)
        except (ElementTree.ParseError, ValueError) as error:
            raise ModelError(f"{source}: not XML ({error})") from error
        if self._root.tag != ROOT:
            raise ModelError(f"{source}: not an OpenSim model: expected the element '{ROOT}', got '{self._root.tag[:100]}'")
        self._check_nesting()
        self._lines: dict[Element, int] | None = None
        version = self._version()
        models = self._root.findall("Model")
        if len(models) != 1:
            raise ModelError(f"{source}: expected one element 'Model' in '{ROOT}', got {len(models)}")
        self.model = models[0]
        if version < SOCKETS:
            self._lines = lines_of(self._root, text)
            modernise(self.model, self._lines)

    def _check_nesting(self) -> None:
        level, depth = [self._root], 0
        while level:
            level, depth = [child for element in level for child in element], depth + 1
            if depth > MAX_NESTING:
                raise ModelError(f"{self._source}: expected at most {MAX_NESTING} nested XML elements")

    def _version(self) -> int:
        version = self._root.get("Version", "")
        if not (version.isascii() and version.isdigit() and len(version) < 10):
            self.fail(self._root, f"expected a number as Version, got '{version[:20]}'")
        if int(version) < OLDEST_VERSION:
            self.fail(self._root, f"expected Version ≥ {OLDEST_VERSION}, got {version}: save the model with a newer OpenSim")
        return int(version)

    def fail(self, element: Element, message: str) -> NoReturn:
        """Raise ModelError with the line and the name of an element."""
        name = element.get("name")
        label = element.tag if name is None else f"{element.tag} {name[:100]}"
        lines = lines_of(self._root, self._text) if self._lines is None else self._lines
        raise ModelError(f"{self._source}, line {lines[element]}, {label}: {message}")

    def name(self, element: Element) -> str:
        """Return the attribute `name` of an element."""
        name = element.get("name", "")
        if not name or "/" in name or len(name) > 200:
            self.fail(element, "expected an attribute 'name' without '/', of at most 200 characters")
        return name

    def child(self, element: Element, tag: str) -> Element:
        """Return the only child with a tag."""
        found = element.findall(tag)
        if len(found) != 1:
            self.fail(element, f"expected one element '{tag}', got {len(found)}")
        return found[0]

    def text(self, element: Element, tag: str, default: str = "") -> str:
        """Return the text of a child, `default` where there is no such child."""
        found = element.find(tag)
        return default if found is None else (found.text or "").strip()

    def flag(self, element: Element, tag: str, default: bool = False) -> bool:
        """Return a child's `true` or `false`."""
        found = self.text(element, tag, str(default)).lower()
        if found not in ("true", "false"):
            self.fail(element, f"{tag}: expected 'true' or 'false', got '{found[:20]}'")
        return found == "true"

    def numbers(self, element: Element, tag: str, size: int | None = None) -> Array:
        """Return the finite numbers in a child. size: how many; None: any number of them, at least one"""
        child = self.child(element, tag)
        words = (child.text or "").split(maxsplit=MAX_NUMBERS)
        if len(words) > MAX_NUMBERS:
            self.fail(child, f"expected at most {MAX_NUMBERS} numbers")
        if len(words) != size if size is not None else not words:
            self.fail(child, f"expected {'numbers' if size is None else f'{size} numbers'}, got {len(words)}")
        try:
            values = np.array([float(word) for word in words])
        except ValueError:
            self.fail(child, f"expected numbers, got '{' '.join(words)[:60]}'")
        if not np.isfinite(values).all():
            self.fail(child, f"expected finite numbers, got '{' '.join(words)[:60]}'")
        return values

    def number(self, element: Element, tag: str) -> float:
        """Return the finite number in a child."""
        return float(self.numbers(element, tag, 1)[0])

    def vector(self, element: Element, tag: str) -> Array:
        """Return the three numbers in a child (3)."""
        return self.numbers(element, tag, 3)
