"""Commands that import traces and export runs: import, export, dashboard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import form_of
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    NO_PRINT,
    STDOUT,
    GpuFile,
    GpuName,
    ModelFile,
    Overwrite,
    RankFromOrder,
    Traces,
    content_json,
    from_pipe,
    open_traces,
    output_file,
    output_option,
    say_written,
    source,
)
from hotline_analysis.text.formats import size


@dataclass
class _Written:
    """A written run, for the envelope. The run is not opened and may already have moved to a remote store."""

    path: Path
    manifest: Mapping[str, Any]


def _run_name(output: str) -> str:
    if output == "-":
        raise typer.BadParameter(NO_PRINT)
    return output


@app.command("import")
def import_(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE",
            help="A trace file, a folder or pattern of trace files, or several files; - reads a trace from a pipe."
            " Or runs.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="RUN",
            help="The run directory to write, or a URL in a store: s3://bucket/run.hotline.",
            callback=_run_name,
        ),
    ],
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    kernel_classes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file with the columns pattern and class: classes of your own kernels."),
    ] = None,
    op_signatures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file with the columns name, family and roles: work of your own ops."),
    ] = None,
    op_work: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A query over op_shape that counts the work of ops without a formula."),
    ] = None,
    keep_secrets: Annotated[
        bool,
        typer.Option("--keep-secrets", help="Keep likely keys and passwords in the metadata, instead of ***."),
    ] = False,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Leave out files that cannot be imported, and exit with 0 if ranks of the job are missing.",
        ),
    ] = False,
    rank_from_order: RankFromOrder = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of files to import at a time, each in a process with up to 1 GB of memory."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Import on a Dask cluster: tcp://HOST:8786, a scheduler file, or local:N for N local processes.",
        ),
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where workers without a shared folder store their results: s3://bucket/parts.",
            show_default="next to the run",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary of the written run as JSON.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Read and annotate traces, and keep the result as a run.

    A run is a directory that every other command opens at once; a trace has to be imported each time. The exit status
    is 1 if a run of several ranks lacks ranks of its job; the run is written anyway (see --allow-missing).

    A cluster needs `pip install hotline-analysis[cluster]` and folders visible to all workers. With a run or --parts in
    a store, no shared folder is needed: workers read traces from a store and write their results to it. After an error,
    the same command continues with the remaining files.

    A run for a store is first written to the temporary folder (TMPDIR). The run becomes valid once everything is
    uploaded.

    Runs are annotated again when imported. Use this to convert a run from an earlier version, to merge several runs, or
    to replace a run's rules with the rules given here.

    \b
    Example:
      hotline import "traces/rank*.json.gz" -o run.hotline
      hotline import old.hotline -o new.hotline
    """
    from hotline_analysis.cli import console
    from hotline_analysis.importer import (
        find_traces,
        is_remote,
        missing_ranks,
        read_manifest,
        shown,
        state_of,
        written_here,
    )

    begun = time.perf_counter()
    with (
        from_pipe(traces) as given,
        written_here(output, overwrite=overwrite) as here,
        console.progress() as on_progress,
    ):
        # Workers that read from and write to a store need no folder on this machine.
        is_elsewhere = cluster is not None and all(map(is_remote, [output, *given]))
        beside = f"{output.rstrip('/')}.parts" if is_elsewhere else None
        run = ha.import_traces(
            source(given),
            here,
            model=model,
            overwrite=overwrite,
            kernel_classes=kernel_classes,
            gpu=gpu,
            gpus=gpus,
            op_signatures=op_signatures,
            op_work=op_work,
            keep_secrets=keep_secrets,
            allow_missing=allow_missing,
            rank_from_order=rank_from_order,
            workers=workers,
            cluster=cluster,
            parts=parts or beside,
            on_progress=on_progress,
        )
        written = _Written(run, read_manifest(run))
        ranks_of_run = written.manifest["parts"]
        names = {part["file"] for part in ranks_of_run}
        read = size(sum(state_of(file)[1] for file in find_traces(source(given))[0] if file.name in names))
    seconds = time.perf_counter() - begun
    place = shown(output) if is_remote(output) else str(run)
    ranks = "1 rank" if len(ranks_of_run) == 1 else f"{len(ranks_of_run)} ranks"
    events = sum(part["event_count"] for part in ranks_of_run)
    if as_json:
        said = {"run": place, "rank_count": len(ranks_of_run), "event_count": events, "seconds": round(seconds, 3)}
        typer.echo(content_json("import", said, [written]), nl=False)
    else:
        typer.echo(
            f"{console.one_line(place)}: {ranks}, {events:,} events"
            f" from {read} in {seconds:.1f} s ({events / seconds:,.0f} events/s)"
        )
    if missing_ranks(ranks_of_run) and not allow_missing:
        console.error(
            "the run lacks ranks of its job", "Add the missing traces, or allow missing ranks (--allow-missing)."
        )
        raise typer.Exit(1)


@app.command("export")
def export(
    traces: Traces,
    output: Annotated[Path, output_option("The folder to write; for perfetto, the file, or -.", "PATH", dash="file")],
    format: Annotated[
        Literal["parquet", "perfetto"],
        typer.Option(help="Parquet files of tables and answers, or one trace file for ui.perfetto.dev."),
    ] = "parquet",
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="parquet: only this table or answer, next to run, measure and verdict. Repeatable."
        ),
    ] = None,
    append: Annotated[
        bool,
        typer.Option("--append", help="parquet: add the run to a dataset of several runs, for `hotline dashboard`."),
    ] = False,
    name: Annotated[str | None, typer.Option(help="parquet: name of the run; the folder's name by default.")] = None,
    commit: Annotated[str | None, typer.Option(help="parquet: revision of the program.")] = None,
    started: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="parquet: start of the run (ISO 8601), if unknown from the traces."),
    ] = None,
    with_report: Annotated[
        bool, typer.Option("--report/--no-report", help="--append: also add the report as a page.")
    ] = True,
    rank: Annotated[int | None, typer.Option(help="perfetto: the rank to write, required for several ranks.")] = None,
    span: Annotated[
        int | None,
        typer.Option(metavar="EVENT_ID", help="perfetto: only this event, nested events, and the launched work."),
    ] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Write tables or a trace for other tools.

    A folder of tables has a Parquet file for each table and answer, with units and descriptions, repeated in
    schema.json. With --append, the folder is a dataset and the run is one partition, without the tables of single
    events.

    The trace file contains the original events. It adds steps, phases and modules on threads and streams, queue
    lengths, bandwidths and memory. The file is compressed if its name ends in .gz.

    \b
    Example:
      hotline export run.hotline -o dashboard
      hotline export run.hotline -o runs --append --name nightly --commit 4f2a91c
      hotline export run.hotline --format perfetto -o annotated.json.gz
    """
    from hotline_analysis.cli import console

    if format == "parquet" and (rank is not None or span is not None):
        raise typer.BadParameter("--rank and --span need --format perfetto")
    if format == "perfetto":
        if append or table or name is not None or commit is not None or started is not None:
            raise typer.BadParameter("--table, --append, --name, --commit and --started need --format parquet")
        form_of(output, {".json": "plain", ".gz": "compressed"}, default="plain")
        with open_traces(traces, model, gpu, gpus) as trace, output_file(output, ".json") as file:
            ha.export_perfetto(trace, file, rank=rank, span=span, overwrite=overwrite)
        say_written(output, "; open it in ui.perfetto.dev")
        return
    if output == STDOUT:
        raise typer.BadParameter(
            "cannot write to '-': tables are a folder of files, and only --format perfetto can be printed"
        )
    options: dict[str, Any] = {
        "tables": table,
        "name": name,
        "commit": commit,
        "started": None if started is None else _time(started),
        "overwrite": overwrite,
    }
    with open_traces(traces, model, gpu, gpus) as trace:
        if append:
            folder = ha.append_run(trace, output, with_report=with_report, **options)
        else:
            folder = ha.export_tables(trace, output, **options)
    files = list(folder.glob(f"*.{format}"))
    written = size(sum(file.stat().st_size for file in files))
    typer.echo(f"{console.one_line(str(folder))}: {len(files)} tables, {written}")


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-11-25T21:04:00+01:00; a time without a zone is UTC",
            param_hint="--started",
        ) from None


@app.command("dashboard")
def dashboard(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A folder written by `hotline export --append`.")],
    output: Annotated[
        Path | None, output_option("The page to write; dashboard.html in the dataset by default.", "HTML")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw the runs of a dataset over time, on one page.

    The page shows at which run a metric changed by more than chance explains, and links to the report of each run. It
    needs no network. Run the command again after adding runs.

    \b
    Example:
      hotline dashboard runs
    """
    say_written(ha.dashboard(dataset, output, overwrite=overwrite or output is None))
