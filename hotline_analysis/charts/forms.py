"""A chart as a page, a picture or a specification."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from hotline_analysis.charts.page import asset, clean, page, to_script
from hotline_analysis.text.html import render

INK = "#1b1f24"
"""The colour of texts and axes; on a page, they have the colour of the page's text."""
# The sandbox: scripts run in a separate origin, and the link to a viewer opens a page outside the sandbox.
_TO_NODE = "#timeline-"
_SANDBOX = "allow-scripts allow-popups allow-popups-to-escape-sandbox"


def to_html(chart: Any) -> str:
    """Return a page of the chart with tooltips that works without a network. The page evaluates no text as code."""
    import vl_convert

    spec = page_spec(chart)
    title = str(spec["title"]["text"])
    # With `ast`, Vega interprets expressions, so the policy need not allow `unsafe-eval`.
    start = (
        "vegaEmbed(document.getElementById('chart'), JSON.parse(document.getElementById('spec').textContent),"
        " {mode: 'vega-lite', renderer: 'svg', actions: false, ast: true});"
    )
    body = render("chart.html", title=clean(title), spec=to_script(spec))
    return page(title, body, styles=(asset("page.css"),), scripts=(vl_convert.javascript_bundle(start),))


def page_spec(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of a chart for a page: texts and axes have the colour of the page's text."""
    ink = "currentColor"
    spec: dict[str, Any] = _with_ink(chart.to_dict(), ink)
    config = spec.setdefault("config", {})
    # Outside a page, a chart keeps a white background for the dark text.
    config["background"] = "transparent"
    axis, legend = config.setdefault("axis", {}), config.setdefault("legend", {})
    axis.update(labelColor=ink, titleColor=ink, domainColor=ink, tickColor=ink)
    legend.update(labelColor=ink, titleColor=ink)
    spec["padding"] = {"left": 14, "right": 14, "top": 5, "bottom": 5}
    config["header"] = {"labelColor": ink, "titleColor": ink}
    config["title"] = {"color": ink, "subtitleColor": ink}
    return spec


def _with_ink(part: Any, ink: str) -> Any:
    """Replace `INK` by another colour in a specification, but not in the data."""
    if isinstance(part, dict):
        return {key: value if key == "datasets" else _with_ink(value, ink) for key, value in part.items()}
    if isinstance(part, list):
        return [_with_ink(value, ink) for value in part]
    return ink if part == INK else part


def link_to_node(node: int | None) -> str | None:
    """Link from a mark to a node of the timeline on the same page, by the position of the node, if any."""
    return None if node is None else f"{_TO_NODE}{node}"


def to_picture(chart: Any) -> Markup:
    """A chart as SVG for a page, with the title as label for screen readers, and tooltips with the values of marks."""
    name = escape(clean(chart.to_dict()["title"]["text"]))
    svg = to_svg(chart).replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    # Vega puts a base address before links.
    svg = re.sub(rf'<a xlink:href="[^"]*{_TO_NODE}(\d+)">', r'<a href="#timeline" data-hotline-node="\1">', svg)
    svg = re.sub(r'(<path aria-label="([^"]*)" role="graphics-symbol"[^>]*)/>', r"\1><title>\2</title></path>", svg)
    return Markup(svg)


def in_frame(page: str, title: str) -> str:
    """A page in a sandboxed frame for a notebook, so that styles and scripts do not affect the notebook.

    The scripts of the page run, but cannot access the notebook.
    """
    frame = Markup('<iframe title="{}" sandbox="{}" style="width:100%;height:640px;border:0" srcdoc="{}"></iframe>')
    return str(frame.format(title, _SANDBOX, page))


def to_svg(chart: Any) -> str:
    """A chart as SVG for a page: texts and axes have the colour of the page's text, and no name is markup."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(page_spec(chart), allowed_base_urls=[]))
