"""Single-file HTML pages for use without a network. Names from a trace cannot inject markup or code."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources

from markupsafe import Markup

from hotline_analysis.text.formats import safe, shorten
from hotline_analysis.text.html import render

# The page fetches and sends nothing, whatever a name in the trace contains, and runs only the scripts hashed here.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'"
)
LONGEST_NAME = 300


def asset(name: str) -> str:
    """Return a script or style sheet of this package."""
    return (resources.files("hotline_analysis.charts") / "assets" / name).read_text(encoding="utf-8")


def clean(name: str) -> str:
    """Prepare a name from a trace for a page: shorten a very long name, and escape characters that could hide text."""
    return safe(shorten(name, LONGEST_NAME))


def to_script(value: object) -> Markup:
    """JSON for a script element, escaped so that no text in the value can end the element."""
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
    """Hash of a script for the policy, with ends of lines normalised as an HTML parser does."""
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
