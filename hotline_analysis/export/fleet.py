"""Read a dataset of runs for its dashboard.

A dataset may come from anyone, so only regular files of moderate size are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from hotline_analysis.atomic import check_file, path_of, replace_file
from hotline_analysis.charts.fleet import TITLES, fleet_page
from hotline_analysis.errors import HotlineError
from hotline_analysis.export.changes import change_points
from hotline_analysis.export.parquet import PARTITION, REPORT

PAGE = "dashboard.html"
_MOST_BYTES = 64 << 20  # maximum unpacked size of a table; a table of measures has a few thousand rows
_MOST_ROWS = 100_000
_RUN = {
    "run_id": pl.String,
    "name": pl.String,
    "commit": pl.String,
    "started_utc": pl.Datetime("us", "UTC"),
    "exported_utc": pl.Datetime("us", "UTC"),
    "model": pl.String,
    "device": pl.String,
    "rank_count": pl.Int64,
    "batch": pl.Int64,
    "step_ns": pl.Float64,
    "gpu_busy_ns": pl.Float64,
    "gpu_idle_ns": pl.Float64,
    "memory_peak_bytes": pl.Float64,
    "mfu_pct": pl.Float64,
    "bound_by": pl.String,
}
_MEASURE = {"run_id": pl.String, "metric": pl.String, "median": pl.Float64}


def dashboard(dataset: str | Path, path: str | Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the dashboard of a dataset (`append_run`) as a single page, by default `dashboard.html` in the dataset.

    The page shows the runs over time, the change points of each metric, and links to the reports. The page needs no
    network. After adding runs, write the page again. Runs form a series if they have the same model, device, batch and
    number of ranks. Raises `HotlineError` if the dataset has no runs, and `ExportExistsError` if the page exists and
    `overwrite` is false.
    """
    folder = path_of(dataset)
    target = folder / PAGE if path is None else path_of(path)
    check_file(target, overwrite=overwrite)
    partitions = sorted(entry for entry in _folders(folder) if entry.name.startswith(PARTITION))
    run_frames: list[pl.DataFrame] = []
    measure_frames: list[pl.DataFrame] = []
    notes = []
    for partition in partitions:
        try:
            run = _read(partition / "run.parquet", _RUN).head(1)
            measure = _read(partition / "measure.parquet", _MEASURE)
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            notes.append(f"{partition.name} is left out: {str(error).partition(chr(10))[0]}")
            continue
        link = _link(partition / REPORT, target)
        run_frames.append(run.with_columns(link=pl.lit(link, pl.String), run_id=pl.lit(partition.name)))
        measure_frames.append(measure.with_columns(run_id=pl.lit(partition.name)))
    if not run_frames:
        raise HotlineError(
            f"{folder} has no runs", hint="`hotline export run.hotline -o DATASET --append` adds a run to a dataset."
        )
    runs = (
        pl.concat(run_frames)
        .with_columns(
            when=pl.coalesce("started_utc", "exported_utc"),
            run=pl.col("name").fill_null("?"),
            series=pl.concat_str(
                pl.coalesce("model", pl.lit("unknown model")),
                pl.lit(" on "),
                pl.coalesce("device", pl.lit("unknown device")),
                pl.when(pl.col("batch").is_not_null()).then(pl.format(", batch {}", "batch")).otherwise(pl.lit("")),
                pl.when(pl.col("rank_count") > 1).then(pl.format(", {} ranks", "rank_count")).otherwise(pl.lit("")),
            ),
        )
        .filter(pl.col("when").is_not_null())
        .sort("when", "run_id")
    )
    points = pl.concat(measure_frames).rename({"median": "value"}).filter(pl.col("value").is_finite())
    points = (
        points.filter(pl.col("metric").is_in(list(TITLES)) | pl.col("metric").str.starts_with("phase:"))
        .join(runs.select("run_id", "series", "run", "commit", "when"), on="run_id")
        .sort("series", "metric", "when", "run_id")
    )
    levels, changes = _levels(points)
    page = fleet_page(runs, levels, changes, notes)
    return replace_file(target, lambda file: file.write_text(page, encoding="utf-8"))


def _levels(points: pl.DataFrame) -> tuple[pl.DataFrame, list[Mapping[str, Any]]]:
    """The points with the mean of their stretch, and the changes, newest first."""
    frames = [points.clear().with_columns(level=pl.lit(None, pl.Float64))]
    changes: list[Mapping[str, Any]] = []
    for (series, metric), rows in points.group_by("series", "metric", maintain_order=True):
        series_changes = change_points(rows["value"].to_list())
        levels = [
            series_changes[0].before if series_changes else float(rows.select(pl.col("value").mean()).item())
        ] * rows.height
        for change in series_changes:
            levels[change.at :] = [change.after] * (rows.height - change.at)
            row = rows.row(change.at, named=True)
            changes.append(
                {
                    "metric": metric,
                    "series": series,
                    "run": row["run"],
                    "commit": row["commit"],
                    "when": row["when"],
                    "before": change.before,
                    "after": change.after,
                    "pct": change.pct,
                }
            )
        frames.append(rows.with_columns(level=pl.Series(levels, dtype=pl.Float64)))
    changes.sort(key=lambda change: (change["when"], abs(change["pct"])), reverse=True)
    return pl.concat(frames), changes


def _folders(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError as error:
        raise HotlineError(f"{folder} cannot be read: {error.strerror}", hint="Name the folder of a dataset.") from None


def _read(file: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    """The given columns of a table. Raises `ValueError`, or an error of Polars or the system, for an invalid file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.is_symlink() or not file.is_file():
        raise ValueError(f"{file.name} is not a plain file")
    try:
        with pq.ParquetFile(file) as parquet:
            footer = parquet.metadata
            unpacked = sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
            if footer.num_rows > _MOST_ROWS or unpacked > _MOST_BYTES:
                raise ValueError(f"{file.name} has {footer.num_rows:,} rows, more than a table of a dataset can have")
            frame = pl.from_arrow(parquet.read(columns=list(columns)))
    except pa.ArrowException as error:
        raise ValueError(f"{file.name}: {error}") from None
    assert isinstance(frame, pl.DataFrame)
    return frame.select(pl.col(name).cast(kind) for name, kind in columns.items())


def _link(report: Path, page: Path) -> str | None:
    """The relative link from the page to a report; `None` without a report."""
    if report.is_symlink() or not report.is_file():
        return None
    relative = os.path.relpath(report.resolve(), page.resolve().parent)
    return quote(re.sub(r"\\", "/", relative))
