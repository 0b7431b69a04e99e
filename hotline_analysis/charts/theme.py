"""Colours and texts that all charts share."""

from __future__ import annotations

from typing import Any

import altair as alt

# Hues that people with any kind of colour vision can tell apart (Okabe and Ito, 2008).
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#999999")
PHASES = {
    "load_data": "#e69f00",
    "forward": "#0072b2",
    "loss": "#cc79a7",
    "zero_grad": "#56b4e9",
    "backward": "#d55e00",
    "optimizer": "#009e73",
    "other": "#999999",
}
WIDTH = 720


def dress(chart: Any, title: str, subtitle: str = "") -> Any:
    """Give a chart its title, which states the finding, and what all charts look like."""
    text = alt.TitleParams(title, subtitle=[subtitle] if subtitle else [], anchor="start", fontSize=14)
    return (
        chart.properties(title=text)
        .configure(background="transparent", font="system-ui, Segoe UI, Helvetica Neue, Arial, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(grid=False, labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
        .configure_legend(labelFontSize=11, titleFontSize=11, titleFontWeight="normal")
    )


def time_unit(largest_ns: float) -> tuple[str, float]:
    """The unit in which an axis up to this time is readable, and its size in nanoseconds."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if largest_ns >= 2 * size:
            return unit, size
    return ("µs", 1e3) if largest_ns >= 200 else ("ns", 1.0)
