"""Pages that open anywhere: one file, no network, and nothing in it that a trace's names could change."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources

from markupsafe import Markup

from hotline_analysis.text.formats import safe, shorten
from hotline_analysis.text.html import render

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


def to_script(value: object) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    inert = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(inert)


def page(title: str, body: Markup, *, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """Return a whole page. The title is text; body, styles and scripts are trusted."""
    policy = _POLICY.format(scripts=" ".join(_hash(f"\n{script}") for script in scripts) or "'none'")
    filled = render(
        "page.html",
        title=clean(title),
        policy=Markup(policy),
        body=body,
        styles=[Markup(style) for style in styles],
        scripts=[Markup(script) for script in scripts],
    )
    return f"{filled}\n"


def _hash(script: str) -> str:
    """The name of a script in a policy. The parser makes one end of line of all."""
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
