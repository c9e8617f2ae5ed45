"""The documentation (README.md, docs/, …): its code blocks, inline commands, links, tables and anchors."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "MATHEMATICS.md")), *ROOT.glob("docs/**/*.md")]
DOCUMENTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced code block. line: of the document, from 1, where its fence begins"""

    document: str
    line: int
    language: str
    text: str

    def __repr__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def title(self) -> str:
        """Its first line where that is a comment, else ''."""
        first = self.text.split("\n", 1)[0]
        return first.removeprefix("# ") if first.startswith("# ") else ""


def blocks_of(document: str, content: str) -> list[Block]:
    return [Block(document, content.count("\n", 0, found.start()) + 1, *found.groups()) for found in _FENCE.finditer(content)]


BLOCKS = [block for document, content in sorted(DOCUMENTS.items()) for block in blocks_of(document, content)]


def blocks(language: str, document: str = "") -> list[Block]:
    return [block for block in BLOCKS if block.language == language and document in ("", block.document)]


def titled(title: str) -> Block:
    (found,) = (block for block in BLOCKS if block.title == title)
    return found


def prose(document: str) -> str:
    return _FENCE.sub("", DOCUMENTS[document])


def inline(document: str) -> list[str]:
    """Inline code, with line breaks as spaces."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(document))]


def links(document: str) -> list[str]:
    """Relative links, with anchors."""
    return [link for link in _LINK.findall(prose(document)) if "://" not in link]


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(document: str, mark: str) -> list[list[str]]:
    """Cells of the table between `<!-- mark -->` and `<!-- /mark -->`, row by row without the heading."""
    rows = DOCUMENTS[document].split(f"<!-- {mark} -->\n")[1].split(f"<!-- /{mark} -->")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("| "))] for row in rows]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
