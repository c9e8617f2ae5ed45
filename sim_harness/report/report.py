"""A report of an experiment: one HTML file that needs nothing else."""

import base64
import html
from collections.abc import Sequence

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
    """Collects sections in order; `html` is the page."""

    def __init__(self, title: str, lead: str) -> None:
        self._title = title
        self._parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(lead)}</p>"]

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def subheading(self, text: str) -> None:
        self._parts.append(f"<h3>{html.escape(text)}</h3>")

    def paragraph(self, text: str) -> None:
        self._parts.append(f'<p class="note">{html.escape(text)}</p>')

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """First row is the headings."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
        self._parts.append(f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>')

    def picture(self, png: bytes, caption: str) -> None:
        data = base64.b64encode(png).decode()
        self._parts.append(f'<p><img alt="{html.escape(caption)}" src="data:image/png;base64,{data}"></p>')
        self.paragraph(caption)

    def link(self, target: str, text: str) -> None:
        """To a file beside the report."""
        self._parts.append(f'<p><a href="{html.escape(target)}">{html.escape(text)}</a></p>')

    def page(self, page: str, title: str, caption: str) -> None:
        """Another whole page in a frame, with all that is in it."""
        inside = html.escape(page)
        self._parts.append(f'<p><iframe title="{html.escape(title)}" srcdoc="{inside}" allowfullscreen></iframe></p>')
        self.paragraph(caption)

    @property
    def html(self) -> str:
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<style>{STYLE}</style></head><body>{''.join(self._parts)}</body></html>"
        )
