"""The places that a step waits for: regions, functions and modules, ranked by their own time on its critical path.

`place_pieces` says how a moment of the path gets its place. Here the pieces are summed up, and put into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.place_pieces import KEY, place_pieces
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import module_name, safe

COLUMNS = {
    "step": pl.Int64,
    "step_ns": pl.Int64,
    "kind": pl.String,
    "place": pl.String,
    "source": pl.String,
    "phase": pl.String,
    "limit": pl.String,
    "path_ns": pl.Int64,
    "path_pct": pl.Float64,
    "module_count": pl.Int64,
    "sampled_pct": pl.Float64,
    "example_event_id": pl.Int64,
}


def slowest_places(trace: Trace, *, rank: int | None = None) -> pl.DataFrame:
    """The places in the code that steps wait for: regions, functions and modules, by their time on the critical path.

    One row per place of the critical path of a mean step (as in `step_limits`), the one with most time first. `kind`
    says what names the place: `region` (`record_function`, `annotate`, NVTX, Lightning), `frame` (a function of the
    user's code), `module`, `phase` (such as the optimizer) or `rest` (the neighbours in time name it). The innermost
    of region, function and module counts, and work on the GPU counts to the place of its launching call. `path_ns`
    adds up to `step_ns` and `path_pct` to 100 %. Modules at the same place of blocks that repeat are one row,
    `layers.*.attn`, and `module_count` says how many have time; it is NULL for all other kinds. Where the trace names
    nothing, samples of the warm-up steps that a capture took may tell a likely function (`sampled`), which has
    `sampled_pct` of the samples at this place. `source` is the line of the user's code. `phase` and `limit` are those
    of most of its time, and `example_event_id` is the event with most of it. `rank` is the lowest of the run by
    default. Empty for a trace without steps of any length.
    """
    check_scope(trace, {"rank": rank})
    chosen = min(trace.ranks) if rank is None else rank
    loop = step_loop(trace, chosen)
    pieces = place_pieces(trace, chosen)
    if loop is None or pieces.is_empty():
        return pl.DataFrame(schema=COLUMNS)
    rows = pieces.group_by(KEY).agg(
        pl.col("path_ns").sum(),
        module_count=pl.when(pl.col("kind").first() == "module").then(pl.col("module_id").n_unique().cast(pl.Int64)),
        named_id=pl.col("named_id").drop_nulls().min(),
        sampled_pct=pl.col("sampled_pct").max(),
    )
    for column in ("source", "phase", "limit", "event_id"):
        rows = rows.join(_most(pieces, column), on=KEY, how="left", nulls_equal=True)
    rows = _with_sources(trace, chosen, rows)
    rows = rows.with_columns(example_event_id=pl.coalesce("event_id", "named_id"))
    rows = rows.sort("path_ns", *KEY, descending=[True, False, False, False])
    # Means are rounded; the largest place takes the rest.
    rest = pl.when(pl.int_range(pl.len()) == 0).then(loop.mean_ns - pl.col("path_ns").sum()).otherwise(0)
    return (
        rows.with_columns(pl.col("path_ns") + rest)
        .with_columns(
            step=pl.lit(loop.typical.step, pl.Int64),
            step_ns=pl.lit(loop.mean_ns, pl.Int64),
            path_pct=100 * pl.col("path_ns") / loop.mean_ns,
        )
        .select(*COLUMNS)
    )


def _with_sources(trace: Trace, rank: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the line of the code of modules, where the trace tells it."""
    if not (rows["kind"] == "module").any():
        return rows
    sources = trace.of(rank).sql(
        "select pattern as place, min(source) as of_module, 'module' as kind from module_source"
        " inner join module_pattern using (rank, module_id) where rank = $rank group by pattern",
        rank=rank,
    )
    return rows.join(sources, on=["kind", "place"], how="left").with_columns(source=pl.coalesce("source", "of_module"))


def _most(pieces: pl.DataFrame, column: str) -> pl.DataFrame:
    """The value of a column that most of the time of each place has; the smallest of equals."""
    return (
        pieces.filter(pl.col(column).is_not_null())
        .group_by(*KEY, column)
        .agg(pl.col("path_ns").sum())
        .sort("path_ns", column, descending=[True, False])
        .group_by(KEY, maintain_order=True)
        .agg(pl.col(column).first())
    )


def place_words(row: Mapping[str, Any]) -> str:
    """A place in a sentence: `save_grid (train.py:7)`, `the region "statistics"`, `between backward and the batch`."""
    name = safe(row["place"])
    if row["kind"] == "region":
        name = f'the region "{name}"'
    elif row["kind"] == "module":
        name = f"the module{'s' if '*' in name else ''} {module_name(name)}"
    if row["kind"] == "sampled":
        share = row.get("sampled_pct")
        of = f": {share:.0f} % of the samples there" if share is not None else ""
        return f"most likely {name} ({safe(row['source'])}{of})"
    has_line = row["kind"] in ("frame", "region") or row["phase"] == "load_data"
    shown = has_line and row["source"]
    return f"{name} ({safe(row['source'])})" if shown else name


def slowest_place(trace: Trace, rank: int, limit: str | None = None) -> dict[str, Any] | None:
    """The place with most of the step, or with most of a limit of it; None where nothing takes time.

    The row is that of `slowest_places`, but for `path_pct`, which is the part of the limit.
    """
    rows = slowest_places(trace, rank=rank)
    if limit is not None and not rows.is_empty():
        pieces = place_pieces(trace, rank).filter(limit=limit)
        whole = int(place_pieces(trace, rank)["path_ns"].sum())
        parts = pieces.group_by(KEY).agg(limit_pct=100 * pl.col("path_ns").sum() / max(whole, 1))
        rows = rows.join(parts, left_on=["kind", "place"], right_on=["kind", "place"], how="inner").filter(
            pl.col("own_source").is_null() | (pl.col("own_source") == pl.col("source"))
        )
        rows = rows.with_columns(path_pct="limit_pct").sort("path_pct", "place", descending=[True, False])
    return rows.row(0, named=True) if not rows.is_empty() and rows["path_pct"][0] > 0 else None
