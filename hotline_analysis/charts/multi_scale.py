"""The multi-scale timeline: levels from the step down to the kernel, each with the children of the opened node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from markupsafe import Markup

from hotline_analysis.answers import detail as tree
from hotline_analysis.answers.bottleneck import gpu_or_cpu_bound, optimizer_bottleneck
from hotline_analysis.answers.generated import level_of_detail
from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.slowest import slowest_op
from hotline_analysis.charts.forms import in_frame
from hotline_analysis.charts.page import asset, clean, page, to_script
from hotline_analysis.charts.places import event_nodes, waited_for, way, with_python
from hotline_analysis.charts.saving import write
from hotline_analysis.charts.step_picture import picture
from hotline_analysis.charts.theme import PHASES, WIDTH, dress, time_axis
from hotline_analysis.run.arguments import takes_traces
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import TIME_UNITS, duration
from hotline_analysis.text.html import render
from hotline_analysis.text.source_lines import Lines
from hotline_analysis.vocabulary import idle_words

_KINDS = 3  # maximum number of additional steps of other kinds
_NODES = 8_000  # maximum nodes of a page; the time of smaller nodes counts to the enclosing node
_OPEN_PCT = 5.0  # minimum share of the step for a node opened in the first view
_LABEL_PX = 6.5
_SEEN = 0.003  # minimum length of a drawn idle slice, as a share of the first level


class Timeline:
    """Timeline of a step of one rank. Write a file with `save`, or show the timeline in a notebook.

    `detail` is the frame of `level_of_detail`, with python functions where no op runs. `chain` lists the nodes opened
    at first: from the step down along the critical path. `others` holds timelines of typical steps of other kinds.
    """

    def __init__(
        self, detail: pl.DataFrame, *, title: str, facts: Sequence[tuple[str, str]], context: Mapping[str, Any]
    ) -> None:
        self.detail = detail
        self.title = title
        self.facts = tuple(facts)
        self.others: tuple[Timeline, ...] = ()
        self._context = context
        self._nodes = _nodes(detail, context["modules"], context["events"])
        self._places = dict(context["places"].select("event_id", "node_id").iter_rows())
        along = way(self._nodes, context["waits"], min_pct=_OPEN_PCT) if context["waits"] is not None else []
        self.chain: list[int] = along or tree.longest_chain(self._nodes, min_pct=_OPEN_PCT)

    @property
    def step(self) -> int | None:
        """Number of the drawn step, or None for a trace without steps."""
        found: int | None = self._context["step"]
        return found

    @property
    def begin_ns(self) -> int:
        """Start of the drawn time, in nanoseconds."""
        return self.detail["start_ns"].min() or 0  # type: ignore[return-value]

    def picture(self) -> dict[str, Any]:
        """Bars of the step for `step_draw.js`: states of the main thread and each device, and causes of idle time."""
        return dict(self._context["picture"])

    def position_of(self, event_id: int) -> int | None:
        """Position in the page of an event's node, or of the enclosing node; None for an event without a node."""
        node = self._places.get(event_id)
        return None if node is None else self._nodes["node_id"].index_of(node)

    def save(self, path: str | Path) -> Path:
        """Write the timeline: `.html` opens level by level; `.svg`, `.png` and `.json` show the first view.

        `.json` is a Vega-Lite specification. Raises `HotlineError` for another ending or if writing fails.
        """
        return write(path, page=self.to_html, chart=self.chart)

    def to_html(self) -> str:
        """Return a page that works without a network."""
        body = render(
            "timeline_page.html",
            title=clean(self.title),
            facts=[(question, clean(answer)) for question, answer in self.facts],
            timeline=self.fragment(),
        )
        return page(
            self.title,
            body,
            styles=(asset("page.css"), asset("timeline.css")),
            scripts=(asset("timeline.js"), START),
        )

    def fragment(self) -> Markup:
        """Return the timeline as part of another page, which needs `timeline.css`, `timeline.js` and `START`."""
        return render("timeline.html", data=to_script(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Return the page's data as columns: nodes and sides (a node's time on one track). Times are in nanoseconds."""
        nodes = self._nodes
        words = nodes.select(
            pl.concat([nodes["short_name"], nodes["name"], nodes["path"]]).drop_nulls().unique(maintain_order=True)
        ).to_series()
        index = pl.DataFrame({"word": words, "at": pl.Series(range(len(words)), dtype=pl.Int64)})

        def look_up(column: str) -> list[int]:
            found = nodes.select(word=column).join(index, on="word", how="left", maintain_order="left")
            return found["at"].fill_null(-1).to_list()

        def code(column: str, values: Sequence[str]) -> list[int]:
            known = {value: number for number, value in enumerate(values)}
            numbers = nodes[column].replace_strict(known, default=-1, return_dtype=pl.Int64)
            return [-1 if number is None else int(number) for number in numbers]

        position = nodes.select("node_id", at=pl.int_range(pl.len()))
        tracks = self._tracks()
        begin: int = self.detail["start_ns"].min() or 0  # type: ignore[assignment]
        sides = (
            self.detail.filter(pl.col("start_ns").is_not_null())
            .join(position, on="node_id")
            .join(
                tracks.select("device", "track_id", number=pl.int_range(pl.len())),
                on=["device", "track_id"],
                nulls_equal=True,
            )
            .sort("at", "start_ns", "number")
        )
        kinds = nodes["kind"].unique(maintain_order=True).to_list()
        phases = nodes["phase"].drop_nulls().unique(maintain_order=True).to_list()
        passes = nodes["pass"].drop_nulls().unique(maintain_order=True).to_list()
        places = nodes.select("source", "function").filter(pl.col("source").is_not_null()).unique(maintain_order=True)
        numbered = places.with_columns(number=pl.int_range(pl.len()))
        parents = nodes.join(
            position.rename({"node_id": "parent_id"}), on="parent_id", how="left", maintain_order="left"
        )
        chosen = set(self.chain)
        return {
            "names": [clean(word) for word in words],
            "kinds": kinds,
            "phases": phases,
            "passes": passes,
            "sources": [self._place(source, function) for source, function in places.iter_rows()],
            "tracks": [
                {"device": device, "name": clean(name)} | ({} if gpu is None else {"gpu": gpu})
                for device, name, gpu in tracks.select("device", "name", "gpu").iter_rows()
            ],
            "idle": self._idle(begin),
            "units": TIME_UNITS,
            "nodes": {
                "parent": parents["at"].fill_null(-1).to_list(),
                "kind": code("kind", kinds),
                "name": look_up("short_name"),
                "full": look_up("name"),
                "path": look_up("path"),
                "pass": code("pass", passes),
                "phase": code("phase", phases),
                "source": nodes.join(
                    numbered, on=["source", "function"], how="left", nulls_equal=True, maintain_order="left"
                )["number"]
                .fill_null(-1)
                .to_list(),
                "members": nodes["member_count"].to_list(),
                "names": nodes["name_count"].to_list(),
                "pct": nodes["name_pct"].round().cast(pl.Int64).to_list(),
                "bound": nodes.select(on_gpu=tree.bound_by() == "GPU")["on_gpu"].cast(pl.Int8).to_list(),
                "event": nodes["event_id"].fill_null(-1).to_list(),
                "gpuEvent": nodes["gpu_event_id"].fill_null(-1).to_list(),
            },
            "sides": {
                "node": sides["at"].to_list(),
                "track": sides["number"].to_list(),
                "start": (sides["start_ns"] - begin).to_list(),
                "dur": (sides["end_ns"] - sides["start_ns"]).to_list(),
                "time": sides["time_ns"].to_list(),
                "count": sides["gpu_event_count"].to_list(),
                "busy": sides["busy_ns"].to_list(),
                "idle": sides["idle_ns"].to_list(),
            },
            "rank": self._context["rank"],
            "stepEvent": self._context["step_event"],
            "chain": [at for at, node in enumerate(nodes["node_id"]) if node in chosen],
        }

    def _tracks(self) -> pl.DataFrame:
        used = self.detail.filter(pl.col("start_ns").is_not_null()).select("device", "track_id").unique()
        names: pl.DataFrame = self._context["tracks"]
        streams: pl.DataFrame = self._context["streams"]
        return (
            used.join(names, on="track_id", how="left", nulls_equal=True)
            .join(streams.with_columns(device=pl.lit("gpu")), on=["device", "track_id"], how="left", nulls_equal=True)
            .with_columns(pl.col("name").fill_null("unknown track"))
            .sort("device", "track_id")
        )

    def _idle(self, begin: int) -> dict[int, list[tuple[int, int, str]]]:
        """Idle slices of each GPU that are long enough to see: start, duration and cause."""
        end: int = self.detail["end_ns"].max() or begin  # type: ignore[assignment]
        idle: pl.DataFrame = self._context["idle"]
        shown = idle.select(
            "gpu", pl.col("start_ns").clip(begin), pl.col("end_ns").clip(upper_bound=end), "cause"
        ).filter(pl.col("end_ns") - pl.col("start_ns") >= _SEEN * (end - begin))
        return {
            gpu: [(start - begin, until - start, idle_words(cause)) for _, start, until, cause in parts.iter_rows()]
            for (gpu,), parts in shown.sort("start_ns").group_by("gpu", maintain_order=True)
        }

    def _place(self, source: str, function: str | None) -> dict[str, str]:
        """Source location of a module or op, and the line of code if the file is available."""
        lines: Lines | None = self._context["lines"]
        return {
            "place": clean(source + (f" in {function}" if function else "")),
            "line": clean(lines.at(source, function)) if lines else "",
        }

    def chart(self) -> Any:
        """The first view as an Altair chart: the opened levels, one below the other, each at full width."""
        levels = [self._level(number, node) for number, node in enumerate(self.chain)]
        shown = [level for level in levels if level is not None]
        if not shown:
            empty = alt.Chart(pl.DataFrame({"text": ["nothing to show"]})).mark_text().encode(text="text:N")
            return dress(empty, clean(self.title))
        stacked = alt.vconcat(*shown, spacing=6).resolve_scale(x="independent", y="independent")
        return dress(stacked, clean(self.title), clean(self.facts[0][1] if self.facts else ""))

    def _level(self, number: int, node: int) -> Any | None:
        rows = level_rows(self.detail, self._nodes, node, together=number == 0)
        if rows.is_empty():
            return None
        opened = self.chain[number + 1] if number + 1 < len(self.chain) else -1
        span = max(1, *(int(value) for value in rows["stop_ns"]))
        axis = time_axis(span)
        rows = rows.with_columns(
            start=pl.col("from_ns") / axis.size,
            stop=pl.col("stop_ns") / axis.size,
            middle=(pl.col("from_ns") + pl.col("stop_ns")) / 2 / axis.size,
            opened=pl.col("node_id") == opened,
            room=((pl.col("stop_ns") - pl.col("from_ns")) / span * WIDTH / _LABEL_PX).cast(pl.Int64),
        )
        labels = [_fitting(*row) for row in rows.select("label", "time", "room").iter_rows()]
        rows = rows.with_columns(short=pl.Series(labels, dtype=pl.String))
        rows = rows.with_columns(
            paper=pl.Series(
                [
                    _paler(PHASES.get(phase, PHASES["other"]), share)
                    for phase, share in rows.select("phase", "share_pct").iter_rows()
                ],
                dtype=pl.String,
            )
        )
        scale = alt.Scale(domain=[0, span / axis.size], nice=False)
        ruler = alt.Axis(tickCount=6, labelExpr=f"datum.label + ' {axis.unit}'", labelFlush=True)
        base = alt.Chart(rows).encode(
            x=alt.X("start:Q", title=None, scale=scale, axis=ruler),
            x2="stop:Q",
            y=alt.Y("device:N", title=None, sort=["CPU", "GPU"], axis=alt.Axis(ticks=False, domain=False)),
            tooltip=[
                alt.Tooltip("label:N", title="name"),
                alt.Tooltip("device:N"),
                alt.Tooltip("time:N"),
                alt.Tooltip("share_pct:Q", title="share of the level, %", format=".1f"),
            ],
        )
        bars = base.mark_bar(height=20, stroke="black").encode(
            color=alt.Color("paper:N", scale=None),
            strokeWidth=alt.condition("datum.opened", alt.value(2), alt.value(0.3)),
        )
        text = base.mark_text(fontSize=10, clip=True, baseline="middle").encode(x="middle:Q", text="short:N")
        title = f"{number + 1}  {self._nodes.filter(node_id=node)['label'][0]}"
        begins = dict(rows.select("device", "begin_ns").iter_rows())
        later = begins.get("GPU", 0) - begins.get("CPU", math.inf)
        if later > 0:
            title += f" (the GPU's row starts {duration(later)} after the CPU's)"
        return (bars + text).properties(
            width=WIDTH,
            height=28 * rows["device"].n_unique(),
            title=alt.TitleParams(title, anchor="start", fontSize=12),
        )

    def _repr_html_(self) -> str:
        return in_frame(self.to_html(), "Timeline")

    def __repr__(self) -> str:
        return f"<Timeline: {self._nodes.height} nodes>"


START = (
    "for (const box of document.querySelectorAll('[data-hotline-timeline]')) {\n"
    "  const drawn = hotlineTimeline(box, JSON.parse(box.nextElementSibling.textContent));\n"
    "  for (const link of document.querySelectorAll('[data-hotline-node]'))\n"
    "    link.addEventListener('click', () => drawn.openTo(Number(link.dataset.hotlineNode)));\n}\n"
)


@takes_traces
def timeline(
    trace: Trace,
    *,
    step: int | None = None,
    rank: int | None = None,
    max_nodes: int = _NODES,
    source_lines: bool = True,
) -> Timeline:
    """Draw one step as a timeline of levels, opened along the critical path.

    Without `step`, draws the step of median duration, and adds typical steps of other kinds as `others`. Without
    `rank`, draws the lowest rank. The page holds the `max_nodes` largest nodes. With `source_lines`, the page shows the
    line of code of a module or op if this python could import the file: below the working directory or a folder of
    `sys.path`. Raises `QueryParameterError` for a step or rank missing in the trace.
    """
    chosen_rank = trace.ranks[0] if rank is None else rank
    check_scope(trace, {"rank": chosen_rank, "step": step})
    if step is not None:
        return _of_step(trace, chosen_rank, step, step, max_nodes, source_lines)
    typical = tree.median_step(trace, chosen_rank)
    loop = step_loop(trace, chosen_rank)
    apart = [kind.step for kind in loop.kinds if kind.step != typical][:_KINDS] if loop is not None else []
    each = max_nodes // (1 + len(apart))
    drawn = _of_step(trace, chosen_rank, None, typical, each, source_lines)
    drawn.others = tuple(_of_step(trace, chosen_rank, other, other, each, source_lines) for other in apart)
    return drawn


def _of_step(
    trace: Trace, chosen_rank: int, step: int | None, chosen_step: int | None, max_nodes: int, source_lines: bool
) -> Timeline:
    """Timeline of a step. `step` is the requested step, `chosen_step` the drawn step."""
    frame = level_of_detail(trace, rank=chosen_rank, step=chosen_step, max_nodes=max_nodes)
    if frame.is_empty() and step is None:
        # Without CPU events there are no phases, and GPU work belongs to no step.
        frame = level_of_detail(trace, rank=chosen_rank, max_nodes=max_nodes)
    elif chosen_step is not None:
        frame = with_python(trace, chosen_rank, chosen_step, frame)
    places = event_nodes(trace, chosen_rank, chosen_step, frame)
    file = trace.of(chosen_rank).sql("select file from rank_info where rank = $rank", rank=chosen_rank)["file"][0]
    tracks = trace.query("track_name", rank=chosen_rank).select("track_id", "name")
    marks = (
        trace.of(chosen_rank)
        .sql(
            "select event_id from step where rank = $rank and step = $step and event_id is not null",
            rank=chosen_rank,
            step=chosen_step,
        )["event_id"]
        .to_list()
    )
    modules = trace.of(chosen_rank).sql(
        "select model_op.module_id, model_op.path, module_source.source, module_source.function from model_op"
        " left join module_source on model_op.rank = module_source.rank"
        " and model_op.module_id = module_source.module_id where model_op.rank = $rank",
        rank=chosen_rank,
    )
    return Timeline(
        frame,
        title=(file if chosen_step is None else f"{file}, step {chosen_step}")
        + (f", rank {chosen_rank}" if len(trace.ranks) > 1 else ""),
        facts=_facts(trace, chosen_rank),
        context={
            "tracks": tracks,
            "modules": modules,
            "places": places,
            "waits": waited_for(trace, chosen_rank, chosen_step, frame, places) if chosen_step is not None else None,
            "events": trace.query("event_source", rank=chosen_rank, step=chosen_step),
            "streams": trace.of(chosen_rank).sql(
                "select event.track_id, min(coalesce(gpu_op.device, -1)) as gpu from gpu_op inner join event"
                " on gpu_op.rank = event.rank and gpu_op.event_id = event.event_id"
                " where gpu_op.rank = $rank group by event.track_id",
                rank=chosen_rank,
            ),
            "idle": trace.of(chosen_rank).sql(
                "select device as gpu, start_ns, end_ns, cause from idle_part where rank = $rank", rank=chosen_rank
            ),
            "lines": Lines() if source_lines else None,
            "step": chosen_step,
            "picture": picture(trace, chosen_rank, frame),
            # Arguments of the command that exports a part: -1 means no argument.
            "rank": chosen_rank if len(trace.ranks) > 1 else -1,
            "step_event": marks[0] if marks else -1,
        },
    )


def _nodes(detail: pl.DataFrame, modules: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Add columns for display to the nodes: a label, the module's path and the source location.

    An op has the location of the enclosing function if known, as for ops of forward. Other nodes have the location of
    the module.
    """
    others = pl.col("name_count") - 1
    around = events.select("event_id", near=pl.struct("source", "function"))
    place = pl.coalesce(pl.when(pl.col("kind") != "module").then("near"), pl.struct("source", "function"))
    return (
        tree.tree_nodes(detail)
        .join(modules, on="module_id", how="left", maintain_order="left")
        .join(around, on="event_id", how="left", maintain_order="left")
        .with_columns(place.struct.unnest())
        .drop("near")
        .with_columns(
            label=pl.when(pl.col("kind") == "phase")
            .then(pl.col("short_name").str.replace_all("_", " "))
            .when(pl.col("kind") != "group")
            .then(pl.col("short_name"))
            .when(others == 0)
            .then(pl.format("{} × {}", "short_name", "member_count"))
            .otherwise(
                pl.format(
                    "{} {} % and {} other{}",
                    "short_name",
                    pl.col("name_pct").round().cast(pl.Int64),
                    others,
                    pl.when(others == 1).then(pl.lit("")).otherwise(pl.lit("s")),
                )
            )
            .map_elements(clean, return_dtype=pl.String)
        )
    )


def _paler(colour: str, share_pct: float) -> str:
    """Lighten a colour for shares below half of a level, as the page does. Black text stays readable."""
    weight = 0.3 + 0.6 * min(1.0, share_pct / 50)
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part * weight + 245 * (1 - weight)):02x}" for part in parts)


def _fitting(label: str, time: str, room: int) -> str:
    """The label with the time, shortened to `room` characters."""
    whole = f"{label} · {time}"
    if len(whole) <= room:
        return whole
    return label if len(label) <= room else f"{label[: int(room - 1)]}…" if room >= 5 else ""


def level_rows(detail: pl.DataFrame, nodes: pl.DataFrame, node: int, *, together: bool = False) -> pl.DataFrame:
    """Rows of one level: the parts of a node on the node's busiest thread and busiest stream.

    `from_ns` and `stop_ns` count from `begin_ns`, the node's start on the track, so both tracks begin at the left. With
    `together`, both count from the node's earliest start on any of the tracks.
    """
    sides = detail.filter(pl.col("start_ns").is_not_null())
    parts = sides.filter(parent_id=node)
    busiest = (
        parts.group_by("device", "track_id")
        .agg(pl.col("time_ns").sum(), pl.col("start_ns").min())
        .sort(["device", "time_ns", "track_id"], descending=[False, True, False])
        .unique("device", keep="first", maintain_order=True)
        .select("device", "track_id", first_ns="start_ns")
    )
    own = sides.filter(node_id=node).select("device", "track_id", own_ns="start_ns")
    whole = nodes.filter(node_id=node).select(pl.max_horizontal(pl.col("cpu_ns").fill_null(0), "gpu_ns")).item()
    begin = pl.min_horizontal("own_ns", "first_ns")
    if together:
        begin = begin.min()
    return (
        parts.join(busiest, on=["device", "track_id"], nulls_equal=True)
        .join(own, on=["device", "track_id"], how="left", nulls_equal=True)
        .join(nodes.select("node_id", "label"), on="node_id")
        .select(
            "node_id",
            "label",
            device=pl.col("device").str.to_uppercase(),
            phase=pl.col("phase").fill_null("other"),
            from_ns=pl.col("start_ns") - begin,
            stop_ns=pl.col("end_ns") - begin,
            begin_ns=begin,
            time=pl.col("time_ns").map_elements(duration, return_dtype=pl.String),
            time_ns="time_ns",
            share_pct=100.0 * pl.col("time_ns") / max(1, whole),
        )
        .sort("device", "from_ns", "node_id")
    )


def _facts(trace: Trace, rank: int) -> list[tuple[str, str]]:
    """The three questions of the page, each with a one-sentence answer."""
    answers = (
        gpu_or_cpu_bound(trace, rank=rank),
        optimizer_bottleneck(trace, rank=rank),
        slowest_op(trace, rank, 1),
    )
    return [(each.question, each.statement) for each in answers]
