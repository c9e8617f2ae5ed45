"""Lines of the elements of a model's file, for messages: `ElementTree` does not keep them."""

from xml.etree.ElementTree import Element
from xml.parsers import expat


def lines_of(root: Element, text: str) -> dict[Element, int]:
    """Return the line on which each element begins. root: parsed from this text, without elements added or removed since"""
    starts: list[int] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda *_: starts.append(parser.CurrentLineNumber)
    parser.Parse(text, True)
    return dict(zip(root.iter(), starts, strict=True))
