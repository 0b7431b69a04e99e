"""The `hotline` command: each command is a few lines over the public API.

`hotline --help` is to answer at once, so commands import what they need themselves.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from typer.core import TyperGroup

import hotline_analysis as ha
from hotline_analysis.errors import ExportExistsError, HotlineError, HotlineWarning

if TYPE_CHECKING:
    import polars as pl

    from hotline_analysis.schema import Column, Table

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE", help="A run directory, a trace file, a folder or pattern of them, or several files."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of the terminal.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, one object per row: exact numbers, complete names.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="CSV with a header: exact numbers, complete names.")]


class _Commands(TyperGroup):
    """Turns what goes wrong in any command into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was given."""
        from hotline_analysis import console

        with _warnings_in_one_line():
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except HotlineError as error:
                console.error(error.message, error.hint)
                raise typer.Exit(1) from None
            except (KeyboardInterrupt, RuntimeError) as error:
                # The database makes an error of its own of Ctrl-C.
                if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
                    raise typer.Exit(130) from None
                raise
            except BrokenPipeError:
                # The reader has seen enough, such as `head`. What is still buffered goes nowhere.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(141) from None


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    from hotline_analysis import console

    with warnings.catch_warnings():
        warnings.simplefilter("always", HotlineWarning)
        show_as_python_does = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HotlineWarning):
                console.warning(str(message))
            else:
                show_as_python_does(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """Run the command line; the entry point of `hotline`."""
    app(prog_name="hotline")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hotline_analysis {ha.__version__}")
        raise typer.Exit


@app.callback()
def _hotline(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Annotate PyTorch profiler traces and find what makes training slow.

    \b
    Example:
      hotline report traces/
    """


@app.command()
def demo() -> None:
    """Print the report of a trace that comes with the package.

    \b
    Example:
      hotline demo
    """
    _print_report([str(ha.demo_trace())], None, "text", None)


@app.command("import")
def import_(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE", help="A trace file, a folder or pattern of them, or several files.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="The run directory to write.")],
    model: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="The model, for traces without module frames; see docs/annotation.md."),
    ] = None,
    kernel_classes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file with the columns pattern and class: your own kernels' classes."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Read and annotate traces, and keep the result as a run.

    A run is a directory that every other command opens at once, where a trace has to be imported each time.

    \b
    Example:
      hotline import "traces/rank*.json.gz" -o run.hotline
    """
    from hotline_analysis import console
    from hotline_analysis.importer import find_traces

    begun = time.perf_counter()
    with console.progress() as on_progress:
        run = ha.import_traces(
            _source(traces),
            output,
            model=model,
            overwrite=overwrite,
            kernel_classes=kernel_classes,
            on_progress=on_progress,
        )
    seconds = time.perf_counter() - begun
    with ha.load(run) as trace:
        parts = trace.manifest["parts"]
    names = {part["file"] for part in parts}
    megabytes = sum(file.stat().st_size for file in find_traces(_source(traces))[0] if file.name in names) / 1e6
    ranks = "1 rank" if len(parts) == 1 else f"{len(parts)} ranks"
    events = sum(part["event_count"] for part in parts)
    typer.echo(
        f"{console.one_line(str(run))}: {ranks}, {events:,} events"
        f" from {megabytes:,.1f} MB in {seconds:.1f} s ({events / seconds:,.0f} events/s)"
    )


@app.command()
def report(
    traces: Traces,
    format: Annotated[
        Literal["text", "markdown", "json", "html"],
        typer.Option(help="How to write it; html is a page with charts and a timeline that needs no network."),
    ] = "text",
    output: Output = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Say where the time goes and what would help.

    \b
    Example:
      hotline report run.hotline --format html -o report.html
    """
    _refuse_to_replace(output, overwrite)
    _print_report(traces, rank, format, output)


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A run directory, a trace file, or a folder or pattern.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What to compare with it; may be the same.")],
    by: Annotated[
        Literal["step", "part", "phase", "module", "region", "op", "kernel"] | None,
        typer.Option(help="All rows of one level, in place of the report."),
    ] = None,
    timeline: Annotated[
        Literal["gpu", "cpu"] | None, typer.Option(help="Compare GPU time, or the main CPU thread's.")
    ] = None,
    rank_a: Annotated[int | None, typer.Option(help="Only this rank of A.")] = None,
    rank_b: Annotated[int | None, typer.Option(help="Only this rank of B.")] = None,
    step_a: Annotated[int | None, typer.Option(help="Only this step of A.")] = None,
    step_b: Annotated[int | None, typer.Option(help="Only this step of B.")] = None,
    phase: Annotated[str | None, typer.Option(help="Only this phase of both.")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header; needs --by.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The report as Markdown.")] = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Say what makes the steps of B slower or faster than those of A.

    The parts of every table add up to the difference. With one trace of several ranks or steps, compare it with
    itself: --rank-a 0 --rank-b 1.

    \b
    Example:
      hotline diff run.hotline traces/
    """
    from hotline_analysis import console

    if by is None and as_csv:
        raise typer.BadParameter("--csv writes one table: choose it with --by")
    if markdown and (by is not None or as_json):
        raise typer.BadParameter("--markdown is for the report: it goes with neither --by nor --json")
    form = _form(as_json, as_csv, output)
    _refuse_to_replace(output, overwrite)
    options: dict[str, Any] = {
        "timeline": timeline,
        "rank_a": rank_a,
        "rank_b": rank_b,
        "step_a": step_a,
        "step_b": step_b,
        "phase": phase,
    }
    with _open([a]) as first, _open([b]) as second:
        if by is not None:
            text = _format_frame(ha.diff(first, second, by=by, **options), form, output)
        else:
            result = ha.diff_report(first, second, **options)
            if markdown:
                text = result.to_markdown()
            elif form == "json":
                text = result.to_json()
            elif output is None:
                text = result.to_text(width=console.width(), color=console.colored())
            else:
                text = result.to_text()
    _write(text.rstrip("\n") + "\n", output)


@app.command()
def timeline(
    traces: Traces,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="What to write: .html, .svg, .png or .json.")
    ],
    step: Annotated[int | None, typer.Option(help="This step; the one of median duration without it.")] = None,
    rank: Annotated[int | None, typer.Option(help="This rank; the lowest without it.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Draw a step as levels, from phases and modules down to kernels.

    The HTML page works without a network and opens on the way to the bottleneck; a click on a slice opens its parts.
    The other formats show that first view; .json is a Vega-Lite specification.

    \b
    Example:
      hotline timeline run.hotline -o timeline.html
    """
    from hotline_analysis import console

    _refuse_to_replace(output, overwrite)
    with _open(traces) as trace:
        ha.charts.timeline(trace, step=step, rank=rank).save(output)
    typer.echo(f"{console.one_line(str(output))}: {output.stat().st_size / 1e6:,.2f} MB")


@app.command()
def chart(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chart; `hotline chart --list` lists them.")
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TRACE",
            help="A run directory, a trace file, a folder or pattern of them, or several files; for diff, A and B.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="What to write: .html, .svg, .png or .json.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank, as --param rank=RANK.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step, as --param step=STEP.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the chart. Repeatable."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the charts and their parameters.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Draw the chart of an answer.

    The HTML page works without a network; .json is a Vega-Lite specification.

    \b
    Example:
      hotline chart phases run.hotline -o phases.svg
      hotline chart diff before.hotline after.hotline -p by=module -o diff.html
    """
    from hotline_analysis import console
    from hotline_analysis.charts import CHARTS, draw, registry, save, saving

    if list_:
        listed = [(kind.name, ", ".join(kind.parameters) or "–", kind.summary) for kind in CHARTS.values()]
        typer.echo(_listing(("name", "parameters", "what it shows"), listed), nl=False)
        return
    if name is None or not traces or output is None:
        raise typer.BadParameter("give the name of a chart, a trace and -o FILE; or --list")
    kind = registry.get(name)
    given: dict[str, object] = {**_arguments(param or [])}
    given |= {key: value for key, value in (("rank", rank), ("step", step)) if value is not None}
    # Complain before a long import.
    kind.arguments(given)
    saving.check_format(output)
    if kind.traces > 1 and len(traces) != kind.traces:
        raise typer.BadParameter(f"{name} compares {kind.traces} traces, each a run directory, file, folder or pattern")
    _refuse_to_replace(output, overwrite)
    with ExitStack() as opened:
        sources = [traces] if kind.traces == 1 else [[source] for source in traces]
        save(draw(name, *(opened.enter_context(_open(source)) for source in sources), **given), output)
    typer.echo(f"{console.one_line(str(output))}: {output.stat().st_size / 1e6:,.2f} MB")


@app.command()
def query(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A query; `hotline queries` lists them.")],
    traces: Traces,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the query. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Answer one question with a query of the package.

    \b
    Example:
      hotline query slowest_ops run.hotline --param limit=5
    """
    from hotline_analysis import catalog

    form = _form(as_json, as_csv, output)
    _refuse_to_replace(output, overwrite)
    arguments = _arguments(param or [])
    catalog.get(name).bind(**arguments)  # complains before a long import
    with _open(traces) as trace:
        _write(_format_frame(trace.query(name, **arguments), form, output), output)


@app.command()
def queries(
    kind: Annotated[
        Literal["answer", "view", "derive"] | None,
        typer.Option(help="Only this kind. Without it: answers, and the views behind charts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the columns of each query.")] = False,
) -> None:
    """List the queries that come with the package.

    \b
    Example:
      hotline queries --kind answer
    """
    from dataclasses import asdict

    from hotline_analysis import catalog

    kinds: tuple[catalog.Kind, ...] = (kind,) if kind else ("answer", "view")
    found = [query for each in kinds for query in catalog.queries(each)]
    if as_json:
        typer.echo(json.dumps([asdict(query) for query in found], indent=2))
        return
    rows = [
        (query.name, ", ".join(p.name if p.required else f"[{p.name}]" for p in query.params) or "–", query.summary)
        for query in found
    ]
    typer.echo(_listing(("name", "parameters", "what it answers"), rows), nl=False)
    typer.echo("\nParameters in brackets are optional. docs/queries.md describes each query and its columns.")


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SQL statement, in DuckDB's dialect.")],
    traces: Traces,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Answer a question of your own.

    The statement can read the tables of the run, which `hotline schema` lists, and nothing else.

    \b
    Example:
      hotline sql "select phase, sum(dur_ns) from annotated_event group by all" run.hotline
    """
    form = _form(as_json, as_csv, output)
    _refuse_to_replace(output, overwrite)
    with _open(traces) as trace:
        _write(_format_frame(trace.sql(statement), form, output), output)


@app.command()
def export(
    traces: Traces,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The folder to write; for perfetto, the file.")
    ],
    format: Annotated[
        Literal["parquet", "perfetto"],
        typer.Option(help="One Parquet file per table, or one trace file for ui.perfetto.dev."),
    ] = "parquet",
    rank: Annotated[int | None, typer.Option(help="perfetto: the rank, if there are several.")] = None,
    span: Annotated[
        int | None,
        typer.Option(metavar="EVENT_ID", help="perfetto: only this event, what is in it, and the work it launched."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write tables or a trace for other tools.

    The trace file holds the original events, and beside them steps, phases and modules on threads and streams, queue
    lengths, bandwidths and memory. It is compressed if its name ends in .gz.

    \b
    Example:
      hotline export run.hotline -o dashboard
      hotline export run.hotline --format perfetto -o annotated.json.gz
    """
    from hotline_analysis import console

    if format == "parquet" and (rank is not None or span is not None):
        raise typer.BadParameter("--rank and --span go with --format perfetto")
    with _open(traces) as trace:
        if format == "perfetto":
            file = ha.export_perfetto(trace, output, rank=rank, span=span, overwrite=overwrite)
            typer.echo(
                f"{console.one_line(str(file))}: {file.stat().st_size / 1e6:,.1f} MB; open it in ui.perfetto.dev"
            )
            return
        folder = trace.export(output, overwrite=overwrite)
    files = list(folder.glob(f"*.{format}"))
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    typer.echo(f"{console.one_line(str(folder))}: {len(files)} tables, {megabytes:,.1f} MB")


@app.command()
def schema(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Only this table, with its columns.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, with the columns of each table.")] = False,
    ddl: Annotated[bool, typer.Option("--ddl", help="`create table` statements.")] = False,
) -> None:
    """List the tables of a run, or the columns of one.

    \b
    Example:
      hotline schema annotated_event
    """
    from hotline_analysis.schema import TABLES

    if as_json and ddl:
        raise typer.BadParameter("--json and --ddl exclude each other")
    tables = list(TABLES.values()) if table is None else [_table(table)]
    if ddl:
        typer.echo(";\n\n".join(table.ddl for table in tables) + ";")
    elif as_json:
        typer.echo(json.dumps([_describe(table) for table in tables], indent=2))
    elif table is None:
        typer.echo(
            _listing(("table", "kind", "meaning"), [(each.name, each.kind, each.doc) for each in tables]), nl=False
        )
        typer.echo("\n`hotline schema TABLE` shows the columns of a table, `hotline schema --json` those of all.")
    else:
        rows = [(column.name, column.type, column.doc) for column in _columns(tables[0])]
        typer.echo(f"{tables[0].doc}\n")
        typer.echo(_listing(("column", "type", "meaning"), rows), nl=False)


# --- what the commands share -----------------------------------------------------------------------------------------


def _source(traces: list[str]) -> str | list[str]:
    return traces[0] if len(traces) == 1 else traces


@contextmanager
def _open(traces: list[str]) -> Iterator[ha.Trace]:
    from hotline_analysis import console

    with console.progress() as on_progress:
        trace = ha.load(_source(traces), on_progress=on_progress)
    with trace:
        yield trace


def _print_report(
    traces: list[str], rank: int | None, format: Literal["text", "markdown", "json", "html"], output: Path | None
) -> None:
    from hotline_analysis import console

    with _open(traces) as trace:
        result = ha.report(trace, rank=rank)
        timeline = ha.charts.timeline(trace, rank=rank) if format == "html" else None
    if format == "html":
        text = result.to_html(timeline)
    elif format == "markdown":
        text = result.to_markdown()
    elif format == "json":
        text = result.to_json()
    elif output is None:
        text = result.to_text(width=console.width(), color=console.colored())
    else:
        text = result.to_text()
    _write(text.rstrip("\n") + "\n", output)


Form = Literal["table", "json", "csv"]


def _form(as_json: bool, as_csv: bool, output: Path | None) -> Form:
    """How to write a frame: as asked for, else as the ending of the file says."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    ending = output.suffix.lower() if output and not (as_json or as_csv) else ""
    if as_json or ending == ".json":
        return "json"
    return "csv" if as_csv or ending == ".csv" else "table"


def _format_frame(frame: pl.DataFrame, form: Form, output: Path | None) -> str:
    from hotline_analysis import console

    if form == "json":
        return console.to_json(frame)
    if form == "csv":
        return console.to_csv(frame)
    if output is None:
        return console.to_table(frame, width=console.width(), color=console.colored())
    return console.to_table(frame)


def _listing(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from hotline_analysis import console

    return console.to_listing(headers, rows, width=console.width(), color=console.colored())


def _arguments(pairs: list[str]) -> dict[str, str]:
    arguments = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--param")
        arguments[name] = value
    return arguments


def _refuse_to_replace(output: Path | None, overwrite: bool) -> None:
    if output is not None and output.is_dir():
        raise ExportExistsError(f"{output} is a folder", hint="Give the name of a file.")
    if output is not None and output.exists() and not overwrite:
        raise ExportExistsError(f"{output} exists already", hint="Choose another name, or --overwrite it.")


def _write(text: str, output: Path | None) -> None:
    """Print the text, or write it to a file that appears when it is complete."""
    if output is None:
        sys.stdout.write(text)
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(output)
    except OSError as error:
        raise HotlineError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _table(name: str) -> Table:
    from difflib import get_close_matches

    from hotline_analysis.schema import TABLES

    if name not in TABLES:
        close = get_close_matches(name, TABLES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else "`hotline schema` lists all of them."
        raise HotlineError(f"there is no table named {name!r}", hint=hint)
    return TABLES[name]


def _columns(table: Table) -> list[Column]:
    """The columns that a query sees."""
    from hotline_analysis.schema import Column

    return [Column("rank", "BIGINT", "process rank"), *table.columns]


def _describe(table: Table) -> dict[str, object]:
    columns = [{"name": column.name, "type": column.type, "meaning": column.doc} for column in _columns(table)]
    return {"name": table.name, "kind": table.kind, "meaning": table.doc, "columns": columns}
