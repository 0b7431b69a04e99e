"""Pages that open anywhere: one file, no network, and nothing in it that a trace's names could change."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources

from hotline_analysis.humane import safe, shorten

# Nothing is fetched, whatever a name in the trace says; scripts and styles are those in the page.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
LONGEST_NAME = 300


def asset(name: str) -> str:
    """Return a script or style sheet of this package."""
    return (resources.files("hotline_analysis.charts") / "assets" / name).read_text(encoding="utf-8")


def clean(name: str) -> str:
    """A name from a trace for a page: the middle of a very long one cut out, what could hide text made visible."""
    return safe(shorten(name, LONGEST_NAME))


def to_script(value: object) -> str:
    """JSON that can stand in a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page(title: str, body: str, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """Return a whole page. The title is text; body, styles and scripts are trusted."""
    head = "".join(f"<style>\n{style}</style>\n" for style in styles)
    tail = "".join(f"<script>\n{script}</script>\n" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(clean(title))}</title>\n{head}</head>\n<body>\n{body}{tail}</body>\n</html>\n"
    )
