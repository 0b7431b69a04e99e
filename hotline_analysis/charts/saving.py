"""Save charts as pages that work without a network, as pictures or as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotline_analysis.atomic import form_of, path_of, replace_file
from hotline_analysis.charts.forms import to_html

FORMS = {".html": "html", ".svg": "svg", ".png": "png", ".json": "json"}


def save(chart: Any, path: str | Path) -> Path:
    """Write an Altair chart or a `Timeline`: `.html` (works without a network), `.svg`, `.png`, or `.json` (Vega-Lite).

    Raises `HotlineError` for another ending or if writing fails.
    """
    if hasattr(chart, "fragment"):  # a Timeline, which writes a different page
        return Path(chart.save(path))
    return write(path, page=lambda: to_html(chart), chart=lambda: chart)


def write(path: str | Path, *, page: Callable[[], str], chart: Callable[[], Any]) -> Path:
    """Write the page or the chart, chosen by the ending of `path`. The file appears whole or not at all."""
    target = path_of(path)
    form = form_of(target, FORMS)

    def fill(file: Path) -> None:
        if form == "html":
            file.write_text(page(), encoding="utf-8")
        elif form == "json":
            file.write_text(chart().to_json() + "\n", encoding="utf-8")
        else:
            # A dark page may show the picture, and black text needs a white background.
            picture = chart().properties(background="white")
            picture.save(file, format=form, **({"scale_factor": 2} if form == "png" else {}))

    return replace_file(target, fill)
