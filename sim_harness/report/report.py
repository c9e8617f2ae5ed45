"""The report of a command: a self-contained HTML file, its pictures as files beside it, and text for a terminal."""

import base64
import html
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from sim_harness.report.tables import WIDTH, Table, text_table

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th { text-align: right; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; } iframe { width: 100%; height: 36rem; border: 1px solid #ddd; border-radius: 8px; }
 p.note { color: #555; } .scroll { overflow-x: auto; }
"""


class Report:
    """A report to which sections are added in order. tables: all tables so far"""

    def __init__(self, title: str, lead: str) -> None:
        self._title = title
        self._html = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(lead)}</p>"]
        self._text: list[tuple[int, str]] = []  # level of a heading or 0
        self._pictures: dict[str, bytes] = {}
        self.tables: list[Table] = []

    def heading(self, text: str, level: int = 2) -> None:
        """Add a heading. level: 2, or 3 for a subheading"""
        self._html.append(f"<h{level}>{html.escape(text)}</h{level}>")
        self._text.append((level, text))

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._note(text)
        self._text.append((0, "\n".join(textwrap.fill(line, WIDTH, break_on_hyphens=False) for line in text.splitlines())))

    def table(self, rows: Table) -> None:
        """Add a table. Its first row has the headings."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
        self._html.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')
        self._text.append((0, text_table(rows)))
        self.tables.append(rows)

    def picture(self, png: bytes, caption: str, name: str = "") -> None:
        """Add a picture. name: of a PNG file beside the report; '': the picture is in the report only"""
        data = base64.b64encode(png).decode()
        self._html.append(f'<p><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}"></p>')
        self._note(caption)
        if name:
            self._pictures[name.replace(" ", "-").replace(",", "")] = png

    def link(self, target: str, text: str) -> None:
        """Add a link to a file beside the report."""
        self._html.append(f'<p><a href="{html.escape(target)}">{html.escape(text)}</a></p>')

    def page(self, page: str, title: str, caption: str) -> None:
        """Add a complete HTML page in a frame."""
        inside = html.escape(page)
        self._html.append(f'<p><iframe title="{html.escape(title)}" srcdoc="{inside}" allowfullscreen></iframe></p>')
        self._note(caption)

    def _note(self, text: str) -> None:
        self._html.append(f'<p class="note">{html.escape(text)}</p>')

    @property
    def html(self) -> str:
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<style>{STYLE}</style></head><body>{''.join(self._html)}</body></html>"
        )

    @property
    def text(self) -> str:
        """Tables and paragraphs with their headings; captions and empty sections are left out."""
        kept: list[tuple[int, str]] = []
        for level, text in reversed(self._text):
            if not level or (kept and not 0 < kept[-1][0] <= level):
                kept.append((level, text))
        return "\n\n".join(text for _, text in reversed(kept))

    def write(self, folder: Path, name: str = "report", figures: Any = None) -> Path:
        """Write `name`.html, whose path is returned, and the pictures.

        figures: written to summary.json, non-finite numbers as null
        """
        folder.mkdir(parents=True, exist_ok=True)
        for picture, png in self._pictures.items():
            (folder / f"{picture}.png").write_bytes(png)
        if figures is not None:
            (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1))
        path = folder / f"{name}.html"
        path.write_text(self.html, encoding="utf-8")
        return path
