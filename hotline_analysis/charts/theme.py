"""Colours, titles and axes shared by all charts."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import altair as alt

from hotline_analysis.charts.forms import INK as INK
from hotline_analysis.charts.forms import in_frame, to_html, to_picture
from hotline_analysis.text.formats import readable_unit

# Hues that people with any kind of colour vision can distinguish (Okabe and Ito, 2008).
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


class _Offline:
    """A chart that a notebook shows without a network: as a picture, or as a page with scripts if there is a selection.

    A renderer chosen in Altair takes precedence.
    """

    def _repr_mimebundle_(self, *args: Any, **kwds: Any) -> Any:
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **kwds)  # type: ignore[misc]
        if "params" not in self.to_dict():  # type: ignore[attr-defined]
            return {"text/html": str(to_picture(self))}
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


_LETTERS = 105  # letters in a line of the subtitle: about 7 pixels each, in the width of a chart with labels


def dress(chart: Any, title: str, subtitle: str = "") -> Any:
    """Give a chart a title, which states the finding, and the common style."""
    text = alt.TitleParams(title, subtitle=textwrap.wrap(subtitle, _LETTERS), anchor="start", fontSize=14)
    dressed = (
        chart.properties(title=text)
        .configure(font="Arial, Liberation Sans, Helvetica, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(grid=False, labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        # A browser may use a wider font than the layout of the labels assumed.
        .configure_axisQuantitative(tickCount=8, labelOverlap="greedy", labelSeparation=8)
        .configure_legend(
            labelFontSize=11, titleFontSize=11, titleFontWeight="normal", labelLimit=220, columnPadding=36
        )
    )
    # Altair would store a plain assignment as a part of the chart's specification.
    object.__setattr__(dressed, "__class__", _OFFLINE[type(dressed)])
    return dressed


@dataclass(frozen=True)
class Axis:
    """An axis of time in a readable unit; `size` is the unit in nanoseconds."""

    unit: str
    size: int

    def title(self, what: str) -> str:
        """Title of the axis, with the unit."""
        return f"{what}, {self.unit}"


def time_axis(largest_ns: float) -> Axis:
    """An axis with a readable unit for times up to `largest_ns`."""
    size, unit = readable_unit(largest_ns)
    return Axis(unit, size)
