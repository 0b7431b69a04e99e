"""Colours and texts that all charts share."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Any

import altair as alt
from markupsafe import Markup, escape

from hotline_analysis.charts.page import clean
from hotline_analysis.text.formats import readable_unit

# Hues that people with any kind of colour vision can tell apart (Okabe and Ito, 2008).
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#999999")
PHASES = {
    "load_data": "#e69f00",
    "forward": "#0072b2",
    "loss": "#cc79a7",
    "zero_grad": "#56b4e9",
    "backward": "#d55e00",
    "clipping": "#f0e442",
    "optimizer": "#009e73",
    "other": "#999999",
}
WIDTH = 720
INK = "#1b1f24"
# Scripts run in an origin of their own; the link to a viewer opens a page, which is not in the sandbox itself.
_TO_NODE = "#timeline-"
_SANDBOX = "allow-scripts allow-popups allow-popups-to-escape-sandbox"


class _Offline:
    """A chart that a notebook shows without a network: as a picture, or with its scripts if it is one to select in.

    Who chooses a renderer of Altair gets that.
    """

    def _repr_mimebundle_(self, *args: Any, **kwds: Any) -> Any:
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **kwds)  # type: ignore[misc]
        if "params" not in self.to_dict():  # type: ignore[attr-defined]
            return {"text/html": str(to_picture(self))}
        from hotline_analysis.charts.saving import to_html

        return {"text/html": in_frame(to_html(self), "Chart")}


class _Chart(_Offline, alt.Chart):
    pass


class _LayerChart(_Offline, alt.LayerChart):
    pass


class _FacetChart(_Offline, alt.FacetChart):
    pass


class _VConcatChart(_Offline, alt.VConcatChart):
    pass


_OFFLINE: dict[type, type] = {kind.__bases__[1]: kind for kind in (_Chart, _LayerChart, _FacetChart, _VConcatChart)}


_LETTERS = 105  # of a line of the subtitle: some 7 pixels each, in the width of a chart with its labels


def dress(chart: Any, title: str, subtitle: str = "") -> Any:
    """Give a chart its title, which states the finding, and what all charts look like."""
    text = alt.TitleParams(title, subtitle=textwrap.wrap(subtitle, _LETTERS), anchor="start", fontSize=14)
    dressed = (
        chart.properties(title=text)
        .configure(font="Arial, Liberation Sans, Helvetica, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(grid=False, labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        # A page may be shown in a wider font than the one the labels were laid out with.
        .configure_axisQuantitative(tickCount=8, labelOverlap="greedy", labelSeparation=8)
        .configure_legend(
            labelFontSize=11, titleFontSize=11, titleFontWeight="normal", labelLimit=220, columnPadding=36
        )
    )
    # An Altair chart takes what is set in the usual way as a part of its specification.
    object.__setattr__(dressed, "__class__", _OFFLINE[type(dressed)])
    return dressed


@dataclass(frozen=True)
class Axis:
    """An axis of time in a readable unit; `size` is that unit in nanoseconds."""

    unit: str
    size: int

    def title(self, what: str) -> str:
        """What the axis shows, with its unit."""
        return f"{what}, {self.unit}"


def time_axis(largest_ns: float) -> Axis:
    """The unit in which an axis up to this time is readable."""
    size, unit = readable_unit(largest_ns)
    return Axis(unit, size)


def page_spec(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of a chart for a page: its texts and axes have the colour of the page's text."""
    ink = "currentColor"
    spec: dict[str, Any] = _with_ink(chart.to_dict(), ink)
    config = spec.setdefault("config", {})
    # Elsewhere a chart has white paper, on which its own ink can be read.
    config["background"] = "transparent"
    axis, legend = config.setdefault("axis", {}), config.setdefault("legend", {})
    axis.update(labelColor=ink, titleColor=ink, domainColor=ink, tickColor=ink)
    legend.update(labelColor=ink, titleColor=ink)
    spec["padding"] = {"left": 14, "right": 14, "top": 5, "bottom": 5}
    config["header"] = {"labelColor": ink, "titleColor": ink}
    config["title"] = {"color": ink, "subtitleColor": ink}
    return spec


def _with_ink(part: Any, ink: str) -> Any:
    """The specification with another ink in its marks. The data are left as they are."""
    if isinstance(part, dict):
        return {key: value if key == "datasets" else _with_ink(value, ink) for key, value in part.items()}
    if isinstance(part, list):
        return [_with_ink(value, ink) for value in part]
    return ink if part == INK else part


def link_to_node(node: int | None) -> str | None:
    """The link of a mark to a node of the timeline on the same page, by its position."""
    return None if node is None else f"{_TO_NODE}{node}"


def to_picture(chart: Any) -> Markup:
    """A chart as SVG with its title in words, for a page; a mark tells its values when the mouse is on it."""
    name = escape(clean(chart.to_dict()["title"]["text"]))
    svg = to_svg(chart).replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    # Vega puts an address of its own before links.
    svg = re.sub(rf'<a xlink:href="[^"]*{_TO_NODE}(\d+)">', r'<a href="#timeline" data-hotline-node="\1">', svg)
    svg = re.sub(r'(<path aria-label="([^"]*)" role="graphics-symbol"[^>]*)/>', r"\1><title>\2</title></path>", svg)
    return Markup(svg)


def in_frame(page: str, title: str) -> str:
    """A page as a part of a notebook, whose own page is not ours to style or to run scripts in.

    The scripts of the page run, and reach nothing of the notebook.
    """
    frame = Markup('<iframe title="{}" sandbox="{}" style="width:100%;height:640px;border:0" srcdoc="{}"></iframe>')
    return str(frame.format(title, _SANDBOX, page))


def to_svg(chart: Any) -> str:
    """A chart as SVG for a page: its texts and axes have the colour of the page's text, and no name is markup."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(page_spec(chart), allowed_base_urls=[]))
