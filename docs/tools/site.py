"""Hooks of MkDocs: files outside of docs/ that the manual links to become pages of the site, and links lead to them.

README.md and the other Markdown files of the project are pages under `project/`. Any other file, such as a configuration, is
a page under `source/` with its text. So a link works in a checkout and in the site alike. A page that would load anything from
another host is an error.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ("README.md", "MATHEMATICS.md", "CONTRIBUTING.md", "CHANGELOG.md")
LANGUAGES = {".toml": "toml", ".py": "python", ".urdf": "xml", ".service": "ini"}

_FENCE = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()([^)\s]+)(\))")

_CODE = re.compile(r"<code>.*?</code>", flags=re.DOTALL)
_LOADED = re.compile(r"<(?:link|script|img|iframe|source|video)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages for the project's own files, and for the files that any page links to."""
    for name in PROJECT:
        files.append(_generated(config, f"project/{name}", (ROOT / name).read_text(encoding="utf-8")))
    for file in list(files.documentation_pages()):
        for _, target, _ in _LINK.findall(_FENCE.sub("", file.content_string)):
            outside = _outside(file.src_uri, target)
            if outside and outside not in PROJECT and not files.get_file_from_path(_page_of(outside)):
                files.append(_generated(config, _page_of(outside), _listing(outside)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside of docs/ to their pages."""
    del config, files
    here = PurePosixPath(page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, mark, anchor = target.partition("#")
        place = _page_of(outside) if (outside := _outside(page.file.src_uri, path)) else _inside(page.file.src_uri, path)
        return f"{before}{os.path.relpath(place, here)}{mark}{anchor}{after}"

    pieces, last = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [_LINK.sub(led, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*pieces, _LINK.sub(led, markdown[last:])])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Remove the backslash of `\\|` in code, which tables need."""
    del page, config, files
    return _CODE.sub(lambda match: match[0].replace(r"\|", "|"), html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Check that the page loads nothing from another host."""
    del config
    for tag in _LOADED.findall(output):
        raise PluginError(f"{page.file.src_uri}: expected no request to another host, got {tag}")
    return output


def _from_root(page: str, target: str) -> str:
    """Return the path, from the root of the project, of what a page links to. page: path in the site"""
    source = page.removeprefix("project/") if page.startswith("project/") else f"docs/{page}"
    return os.path.normpath(PurePosixPath(source).parent / target)


def _outside(page: str, target: str) -> str:
    """Return the path from the root of a linked file outside of docs/; '' for other links."""
    path = target.partition("#")[0]
    if not path or "://" in path or path.startswith("mailto:") or page.startswith("source/"):
        return ""
    found = _from_root(page, path)
    if found.startswith("docs/"):
        return ""
    if found.startswith("..") or not (ROOT / found).is_file():
        raise PluginError(f"{page}: link to {target}: expected a file of the project")
    return found


def _inside(page: str, target: str) -> str:
    """Return the path in docs/ of a link to it."""
    return _from_root(page, target).removeprefix("docs/")


def _page_of(outside: str) -> str:
    return f"project/{outside}" if outside in PROJECT else f"source/{outside}.md"


def _listing(path: str) -> str:
    """Return a page with the text of a file."""
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{(ROOT / path).read_text(encoding='utf-8')}````\n"


def _generated(config: MkDocsConfig, uri: str, content: str) -> File:
    inclusion = InclusionLevel.INCLUDED if uri.startswith("project/") else InclusionLevel.NOT_IN_NAV
    return File.generated(config, uri, content=content, inclusion=inclusion)
