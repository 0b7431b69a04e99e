"""Dashboard of a dataset of runs: one page with metrics over time, and the run at which each metric changed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from hotline_analysis.answers.verdicts import HEADLINES
from hotline_analysis.charts.forms import page_spec
from hotline_analysis.charts.page import asset, clean, page, to_script
from hotline_analysis.charts.theme import HUES, WIDTH, dress
from hotline_analysis.text.formats import SIZE_UNITS, TIME_UNITS, duration, percent, readable_unit, size
from hotline_analysis.text.html import Cell, Table, render

TITLES: Mapping[str, str] = {
    "step": "Time of a step",
    "gpu_busy": "GPU busy in a step",
    "gpu_idle": "GPU idle in a step",
    "memory_peak": "Peak of memory",
    "mfu": "Model FLOP utilisation",
}
"""Metric → title of the metric's chart."""
_SHOWN = 200  # maximum rows of a table; of the runs, the newest
_POINTS = 4000  # maximum points of a chart; Altair accepts 5,000
_START = """
for (const figure of document.querySelectorAll('figure[data-spec]')) {
  vegaEmbed(figure, JSON.parse(document.getElementById(figure.dataset.spec).textContent),
    {mode: 'vega-lite', renderer: 'svg', actions: false, ast: true});
}
"""


_ONE_RUN = "One run: from the second on, this page shows whether steps become slower."


def fleet_page(
    runs: pl.DataFrame, points: pl.DataFrame, changes: Sequence[Mapping[str, Any]], notes: Sequence[str]
) -> str:
    """Return the page. `runs` are in order of time; `points` has `metric`, `value` and `level` (mean between changes).

    Each change has `metric`, `series`, `run`, `commit`, `when`, `before`, `after` and `pct`.
    """
    drawn = []
    for metric, title in TITLES.items():
        rows = points.filter(metric=metric).tail(_POINTS)
        if rows.is_empty():
            continue
        change = next((each for each in changes if each["metric"] == metric), None)
        found = title if change is None else f"{title}: {change['pct']:+.1f} % since {clean(change['run'])}"
        spec = page_spec(_chart(rows, metric, title, found))
        drawn.append({"metric": metric, "title": clean(spec["title"]["text"]), "spec": to_script(spec)})
    body = render(
        "fleet.html",
        title=f"{runs.height:,} run{'s' if runs.height != 1 else ''}",
        headline=_headline(changes) if runs.height > 1 else _ONE_RUN,
        warnings=notes,
        changes=_changes(changes) if changes else None,
        charts=drawn,
        runs=_runs(runs),
    )
    return page("Runs", body, styles=(asset("page.css"),), scripts=(_script(),))


@functools.cache
def _script() -> str:
    """Return the drawing scripts as one bundle; cached because bundling is slow."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(_START)
    return bundle


def _headline(changes: Sequence[Mapping[str, Any]]) -> str:
    steps = [change for change in changes if change["metric"] == "step"]
    if not steps:
        return "No step time has changed by more than chance explains."
    last = steps[0]
    word = "slower" if last["pct"] > 0 else "faster"
    return f"Since {last['run']}, a step of {last['series']} is {abs(last['pct']):.1f} % {word}."


def _chart(rows: pl.DataFrame, metric: str, title: str, found: str) -> Any:
    most = float(rows.select(pl.col("value").abs().max()).item() or 0)
    units = {"memory_peak": SIZE_UNITS, "mfu": ((1, "%"),)}.get(metric, TIME_UNITS)
    scale, unit = readable_unit(most, units)
    shown = rows.with_columns(
        pl.col("value", "level") / scale,
        pl.col("series", "run", "commit").map_elements(clean, return_dtype=pl.String),
        # Vega reads a time without a zone as local time.
        pl.col("when").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    legend = alt.Legend(orient="bottom") if shown["series"].n_unique() > 1 else None
    # A time axis has no length if all runs started at the same time.
    is_moment = shown["when"].n_unique() == 1
    axis = alt.X("when:O", title="UTC", axis=alt.Axis(labelAngle=0))
    base = alt.Chart(shown).encode(
        x=axis if is_moment else alt.X("when:T", title="UTC", scale=alt.Scale(type="utc")),
        color=alt.Color("series:N", title=None, scale=alt.Scale(range=list(HUES)), legend=legend),
    )
    of = f"{title}, {unit}"
    level = base.mark_line(interpolate="step-after", strokeWidth=1.5).encode(y=alt.Y("level:Q", title=of))
    point = base.mark_circle(size=45, opacity=0.9).encode(
        y=alt.Y("value:Q", title=of, scale=alt.Scale(zero=is_moment)),
        tooltip=[
            alt.Tooltip("run:N"),
            alt.Tooltip("commit:N"),
            alt.Tooltip("when:N", title="started"),
            alt.Tooltip("value:Q", title=of, format=",.4~g"),
        ],
    )
    if is_moment:
        return dress(point.properties(width=WIDTH, height=170), found)
    drawn = (level + point).properties(width=WIDTH, height=170)
    return dress(drawn, found, "The line is the mean between two changes.")


def _changes(changes: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            Cell(_when(each["when"])),
            Cell(each["run"], is_text=True, names_row=True),
            Cell(each["commit"] or "–", is_text=True),
            Cell(each["series"], is_text=True),
            Cell(each["metric"], is_text=True),
            Cell(_value(each["metric"], each["before"])),
            Cell(_value(each["metric"], each["after"])),
            Cell(f"{each['pct']:+.1f} %"),
        ]
        for each in changes[:_SHOWN]
    ]
    return Table(_heads("since", "run", "commit", "of", "metric", "before", "after", "change"), rows)


def _runs(runs: pl.DataFrame) -> Table:
    rows = [
        [
            Cell(_when(each["when"])),
            Cell(each["run"], is_text=True, names_row=True, link=each["link"]),
            Cell(each["commit"] or "–", is_text=True),
            Cell(each["series"], is_text=True),
            Cell(duration(each["step_ns"])),
            Cell(percent(_busy(each))),
            Cell("–" if each["memory_peak_bytes"] is None else size(each["memory_peak_bytes"])),
            Cell(percent(each["mfu_pct"])),
            Cell(HEADLINES.get(each["bound_by"], each["bound_by"] or "–"), is_text=True),
        ]
        for each in runs.tail(_SHOWN).reverse().iter_rows(named=True)
    ]
    more = f"The newest {_SHOWN} of {runs.height:,} runs." if runs.height > _SHOWN else ""
    heads = ("started, UTC", "run", "commit", "of", "step", "GPU busy", "memory", "MFU", "what limits it")
    return Table(_heads(*heads), rows, more)


def _heads(*names: str) -> list[Cell]:
    texts = ("run", "commit", "of", "metric", "what limits it")
    return [Cell(name, is_text=name in texts) for name in names]


def _when(when: Any) -> str:
    return "–" if when is None else f"{when:%Y-%m-%d %H:%M}"


def _busy(each: Mapping[str, Any]) -> float | None:
    busy, idle = each["gpu_busy_ns"], each["gpu_idle_ns"]
    return None if busy is None or idle is None or not busy + idle else 100 * busy / (busy + idle)


def _value(metric: str, value: float) -> str:
    return size(value) if metric == "memory_peak" else percent(value) if metric == "mfu" else duration(value)
