"""Slowest places of a step: regions, functions and modules, ranked by their own time on the critical path.

`loop_pieces` assigns a place to each piece of the path. This module sums the pieces and puts them into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hotline_analysis.answers.limits import step_loop
from hotline_analysis.answers.place_pieces import KEY, loop_pieces
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import file_and_line, module_name, safe

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
    """The slowest places in the code: regions, functions and modules, by their time on the critical path.

    One row per place on the critical path of a mean step (as in `step_limits`), the largest time first. `kind` is the
    source of the name: `region` (`record_function`, `annotate`, NVTX, Lightning), `frame` (a function of the user's
    code), `module`, `phase` (such as the optimizer) or `rest` (named by the neighbours in time). The innermost region,
    function or module counts, and GPU work counts to the place of the launching call. `path_ns` adds up to `step_ns`
    and `path_pct` to 100 %. Modules at the same place of repeated blocks share a row, `layers.*.attn`, and
    `module_count` is the number of modules with time; NULL for other kinds. If the trace has no name for a place,
    samples of warm-up steps taken during capture may supply a likely function (`sampled`), with `sampled_pct` of the
    samples at this place. `source` is the line of the user's code. `phase` and `limit` are the values with the most
    time, and `example_event_id` is the event with the most time. `rank` defaults to the lowest rank. Empty for a trace
    without steps of any length.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    cache: dict[int, pl.DataFrame] = trace.memo.setdefault(_Slowest, {})
    if chosen_rank not in cache:
        cache[chosen_rank] = _slowest_places(trace, chosen_rank)
    return cache[chosen_rank].clone()


class _Slowest:
    """The key of the cached places of each rank."""


def _slowest_places(trace: Trace, chosen_rank: int) -> pl.DataFrame:
    loop = step_loop(trace, chosen_rank)
    pieces = loop_pieces(trace, chosen_rank)
    if loop is None or pieces.is_empty():
        return pl.DataFrame(schema=COLUMNS)
    rows = pieces.group_by(KEY).agg(
        pl.col("path_ns").sum(),
        module_count=pl.when(pl.col("kind").first() == "module").then(pl.col("module_id").n_unique().cast(pl.Int64)),
        named_id=pl.col("named_id").drop_nulls().min(),
        sampled_pct=_mean_pct(pl.col("sampled_pct"), pl.col("path_ns")),
    )
    for column in ("source", "phase", "limit", "event_id"):
        rows = rows.join(_most(pieces, column), on=KEY, how="left", nulls_equal=True)
    rows = _with_sources(trace, chosen_rank, rows)
    rows = rows.with_columns(example_event_id=pl.coalesce("event_id", "named_id"))
    rows = rows.sort("path_ns", *KEY, descending=[True, False, False, False])
    # The means are rounded. The largest place absorbs the difference.
    rounding = pl.when(pl.int_range(pl.len()) == 0).then(loop.mean_ns - pl.col("path_ns").sum()).otherwise(0)
    return (
        rows.with_columns(pl.col("path_ns") + rounding)
        .with_columns(
            step=pl.lit(loop.typical.step, pl.Int64),
            step_ns=pl.lit(loop.mean_ns, pl.Int64),
            path_pct=100 * pl.col("path_ns") / loop.mean_ns,
        )
        .select(*COLUMNS)
    )


def _mean_pct(share: pl.Expr, time: pl.Expr) -> pl.Expr:
    """The mean of `share`, weighted by `time`. Pieces without a share do not count. NULL if no piece has a share."""
    return (share * time).sum() / time.filter(share.is_not_null()).sum().replace(0, None)


def _with_sources(trace: Trace, rank: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the source line of modules where the trace has it."""
    if not (rows["kind"] == "module").any():
        return rows
    sources = trace.of(rank).sql(
        "select pattern as place, min(source) as of_module, 'module' as kind from module_source"
        " inner join module_pattern using (rank, module_id) where rank = $rank group by pattern",
        rank=rank,
    )
    return rows.join(sources, on=["kind", "place"], how="left").with_columns(source=pl.coalesce("source", "of_module"))


def _most(pieces: pl.DataFrame, column: str) -> pl.DataFrame:
    """For each place, the column's value with the most time; the smallest value in a tie."""
    return (
        pieces.filter(pl.col(column).is_not_null())
        .group_by(*KEY, column)
        .agg(pl.col("path_ns").sum())
        .sort("path_ns", column, descending=[True, False])
        .group_by(KEY, maintain_order=True)
        .agg(pl.col(column).first())
    )


def place_words(row: Mapping[str, Any], *, short: bool = False) -> str:
    """A place in a sentence: `save_grid (train.py:7)`, `the region "statistics"`, `between backward and the batch`.

    `short` leaves out folders, and how sure a sampled place is.
    """
    name = safe(row["place"])
    if short and row["source"]:
        row = {**row, "source": file_and_line(row["source"])}
    if row["kind"] == "region":
        name = f'the region "{name}"'
    elif row["kind"] == "module":
        name = f"the module{'s' if '*' in name else ''} {module_name(name)}"
    if row["kind"] == "sampled" and not short:
        share = row.get("sampled_pct")
        share_text = f": {share:.0f} % of the samples there" if share is not None else ""
        return f"most likely {name} ({safe(row['source'])}{share_text})"
    has_line = row["kind"] in ("frame", "region", "sampled") or row["phase"] == "load_data"
    source = has_line and row["source"]
    return f"{name} ({safe(row['source'])})" if source else name


def slowest_place(trace: Trace, rank: int, limit: str | None = None) -> dict[str, Any] | None:
    """The place with the most time on the critical path of a mean step; `None` if nothing takes time.

    Returns a row of `slowest_places`. With `limit`, only path time with this limit counts. `path_pct` is then this time
    of the place in percent of the whole step; the other columns still cover all limits.
    """
    rows = slowest_places(trace, rank=rank)
    if limit is not None and not rows.is_empty():
        pieces = loop_pieces(trace, rank).filter(limit=limit)
        total_ns = int(loop_pieces(trace, rank)["path_ns"].sum())
        parts = pieces.group_by(KEY).agg(limit_pct=100 * pl.col("path_ns").sum() / max(total_ns, 1))
        rows = rows.join(parts, left_on=["kind", "place"], right_on=["kind", "place"], how="inner").filter(
            pl.col("own_source").is_null() | (pl.col("own_source") == pl.col("source"))
        )
        rows = rows.with_columns(path_pct="limit_pct").sort("path_pct", "place", descending=[True, False])
    return rows.row(0, named=True) if not rows.is_empty() and rows["path_pct"][0] > 0 else None
