"""Charts as files: pages that work without a network, pictures and Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotline_analysis.atomic import form_of, path_of, replace_file
from hotline_analysis.charts.page import asset, clean, page, to_script
from hotline_analysis.charts.theme import page_spec
from hotline_analysis.text.html import render

FORMS = {".html": "html", ".svg": "svg", ".png": "png", ".json": "json"}


def save(chart: Any, path: str | Path) -> Path:
    """Write an Altair chart or a `Timeline`: `.html` (works without a network), `.svg`, `.png`, or `.json` (Vega-Lite).

    Raises `HotlineError` for another ending or if it cannot be written.
    """
    if hasattr(chart, "fragment"):  # a Timeline, which has a page of its own
        return Path(chart.save(path))
    return write(path, page=lambda: to_html(chart), chart=lambda: chart)


def write(path: str | Path, *, page: Callable[[], str], chart: Callable[[], Any]) -> Path:
    """Write the page or the chart to the file, as its ending says. It appears whole or not at all."""
    target = path_of(path)
    form = form_of(target, FORMS)

    def fill(file: Path) -> None:
        if form == "html":
            file.write_text(page(), encoding="utf-8")
        elif form == "json":
            file.write_text(chart().to_json() + "\n", encoding="utf-8")
        else:
            # A picture may stand on a dark page, where its black texts need a paper.
            picture = chart().properties(background="white")
            picture.save(file, format=form, **({"scale_factor": 2} if form == "png" else {}))

    return replace_file(target, fill)


def to_html(chart: Any) -> str:
    """A chart as a page of its own, with tooltips, that works without a network. It evaluates no text as code."""
    import vl_convert

    spec = page_spec(chart)
    title = str(spec["title"]["text"])
    # `ast` has expressions interpreted, so that the page needs no right to evaluate texts.
    start = (
        "vegaEmbed(document.getElementById('chart'), JSON.parse(document.getElementById('spec').textContent),"
        " {mode: 'vega-lite', renderer: 'svg', actions: false, ast: true});"
    )
    body = render("chart.html", title=clean(title), spec=to_script(spec))
    return page(title, body, styles=(asset("page.css"),), scripts=(vl_convert.javascript_bundle(start),))
