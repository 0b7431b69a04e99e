"""Pages that open anywhere: one file, no network, and nothing in it that a trace's names could change."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources

from hotline_analysis.text.formats import safe, shorten

# Nothing is fetched or sent, whatever a name in the trace says, and no script runs but those that are named here.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'"
)
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
    policy = _POLICY.format(scripts=" ".join(_hash(f"\n{script}") for script in scripts) or "'none'")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(clean(title))}</title>\n{head}</head>\n<body>\n{body}{tail}</body>\n</html>\n"
    )


def _hash(script: str) -> str:
    """The name of a script in a policy. The parser makes one end of line of all."""
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
