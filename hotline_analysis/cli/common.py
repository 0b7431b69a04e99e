"""Shared parts of the commands: options, opening traces, and writing answers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import Form, check_file, form_of, path_of, replace_file, temporary_folder
from hotline_analysis.errors import HotlineError
from hotline_analysis.text.formats import size

if TYPE_CHECKING:
    import polars as pl

    from hotline_analysis.envelope import Run

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE",
        help="A run directory, a trace file, a folder or pattern of trace files, or several files or runs of different"
        " ranks; - reads a trace from a pipe.",
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="JSON",
        help="The model, for traces without module frames: a file written by"
        " hotline_analysis.model_ops(model, inputs).save(FILE).",
    ),
]

GpuName = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="The GPU model of the traces, such as 'A100 SXM4 80GB', for files without a GPU name.",
    ),
]
GpuFile = Annotated[
    Path | None,
    typer.Option(
        "--gpus",
        metavar="CSV",
        help="Specifications of your own GPUs: a file with the columns listed by `hotline schema gpu_given`.",
    ),
]
RankFromOrder = Annotated[
    bool,
    typer.Option(
        "--rank-from-order",
        help="Make each file a rank, in order, even if the file declares another rank or belongs to another program.",
    ),
]


STDOUT = Path("-")
"""Standard output, as a file name."""


NO_PRINT = "cannot write to '-': this output is a folder or a binary file. Name a file with -o."


def output_option(help: str, metavar: str = "FILE", *, dash: Literal["none", "file", "print"] = "none") -> Any:
    """Return the -o option shared by all commands that write.

    `dash` decides the meaning of `-`: an error ("none"), `STDOUT` for `output_file` ("file"), or None for commands that
    print without -o ("print").
    """

    def checked(output: Path | None) -> Path | None:
        if output == STDOUT and dash == "none":
            raise typer.BadParameter(NO_PRINT)
        if output is None or output == STDOUT:
            return None if dash == "print" else output
        return path_of(output)

    return typer.Option("--output", "-o", metavar=metavar, help=help, callback=checked)


Output = Annotated[
    Path | None,
    output_option("Write to this file instead of the terminal; the ending selects the format.", dash="print"),
]
Drawing = output_option("The file to write: .html, .svg, .png or .json; - prints the page.", dash="file")
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
SourceLines = Annotated[
    bool,
    typer.Option("--source-lines/--no-source-lines", help="Show source lines that this Python can import."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON with the rows, the query, units and the run.")]
AsCsv = Annotated[
    bool,
    typer.Option(
        "--csv",
        help="CSV with a header, exact numbers and complete names; a ' before text that a spreadsheet would evaluate.",
    ),
]


def source(traces: list[str]) -> str | list[str]:
    """Return a single name as a string: the API then expands folders and patterns."""
    return traces[0] if len(traces) == 1 else traces


@contextmanager
def from_pipe(traces: Sequence[str]) -> Iterator[list[str]]:
    """Give the traces with `-` replaced by a temporary file of standard input, which exists during the block."""
    if "-" not in traces:
        yield list(traces)
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter("'-' reads a trace from a pipe, but there is no pipe: … | hotline report -")
    with temporary_folder() as folder:
        file = folder / "stdin.json"  # the compression is detected from the first bytes
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy, 1 << 20)
        if not file.stat().st_size:
            raise HotlineError("standard input is empty", hint="`-` reads one trace and can be given once.")
        yield [str(file) if trace == "-" else trace for trace in traces]


@contextmanager
def output_file(output: Path, form: str) -> Iterator[Path]:
    """Give the file to write. For `STDOUT`, give a temporary file and print its content after the block.

    The temporary file has the ending `form`.
    """
    if output != STDOUT:
        yield output
        return
    with temporary_folder() as folder:
        file = folder / f"stdout{form}"
        yield file
        sys.stdout.flush()
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()


@contextmanager
def open_traces(
    traces: list[str],
    model: Path | None = None,
    gpu: str | None = None,
    gpus: Path | None = None,
    *,
    rank_from_order: bool = False,
) -> Iterator[ha.Trace]:
    """Open a run, or import traces to a temporary run, with a progress bar."""
    from hotline_analysis.cli import console

    with from_pipe(traces) as files, console.progress() as on_progress:
        trace = ha.load(
            source(files),
            model=model,
            gpu=gpu,
            gpus=gpus,
            rank_from_order=rank_from_order,
            on_progress=on_progress,
        )
    with trace:
        yield trace


FrameForm = Literal["table", "json", "csv", "parquet"]
_FRAME_FORMS: dict[str, FrameForm] = {".txt": "table", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def settle(output: Path | None, overwrite: bool, asked: Form | None, forms: Mapping[str, Form], default: Form) -> Form:
    """Return the output format: the option `asked`, or else the format for the file name's ending.

    Without a file or an ending, the format is `default`.
    Raises an error before a long import if the output cannot be written.
    """
    if output is not None:
        check_file(output, overwrite=overwrite)
    if asked is not None or output is None:
        return asked or default
    return form_of(output, forms, default=default)


def settle_frame(output: Path | None, overwrite: bool, as_json: bool, as_csv: bool) -> FrameForm:
    """Return the output format of a frame; see `settle`."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    asked: FrameForm | None = "json" if as_json else "csv" if as_csv else None
    return settle(output, overwrite, asked, _FRAME_FORMS, "table")


def write_frame(
    frame: pl.DataFrame,
    form: FrameForm,
    output: Path | None,
    query: str,
    parameters: Mapping[str, object],
    runs: Sequence[ha.Trace],
    *,
    limit: int | None = None,
) -> None:
    """Print a frame, or write it atomically to a file. JSON output includes the question.

    `limit` is the number of rows written. JSON also has the total number of rows.
    """
    if form == "json":
        write(rows_json(frame, query, parameters, runs, limit=limit), output)
        return
    shown = frame.head(limit) if limit is not None else frame
    if form == "parquet" and output is not None:
        replace_file(output, shown.write_parquet)
    else:
        write(_format_frame(shown, form, output, query), output)


def _format_frame(frame: pl.DataFrame, form: FrameForm, output: Path | None, query: str) -> str:
    import polars as pl

    from hotline_analysis.answers.named import FINDING
    from hotline_analysis.cli import console
    from hotline_analysis.vocabulary import CATEGORY_WORDS

    if form == "csv":
        return console.to_csv(frame)
    if frame.columns[: len(FINDING)] == list(FINDING):
        sentences = [(word, frame[word][0]) for word in FINDING]
        return listing(("finding", ""), sentences) if output is None else console.to_listing(("finding", ""), sentences)
    if query != "sql" and "category" in frame.columns and frame["category"].dtype == pl.String:
        # SQL users need the stored words.
        frame = frame.with_columns(pl.col("category").replace(CATEGORY_WORDS))
    if output is None:
        return console.to_table(frame, width=console.width(), color=console.colored())
    return console.to_table(frame)


def rows_json(
    frame: pl.DataFrame,
    query: str,
    parameters: Mapping[str, object],
    runs: Sequence[ha.Trace],
    *,
    limit: int | None = None,
) -> str:
    """Return rows in their envelope as JSON: all rows, or the first `limit` rows."""
    from hotline_analysis.cli import console
    from hotline_analysis.envelope import rows_envelope

    found = rows_envelope(frame, query=query, parameters=parameters, runs=runs, warnings=console.WARNINGS, limit=limit)
    return console.to_envelope(found)


def content_json(kind: str, content: object, runs: Sequence[Run] = (), *, key: str = "") -> str:
    """Return content in an envelope as JSON, under `key` (by default, the kind)."""
    from hotline_analysis.cli import console
    from hotline_analysis.envelope import envelope

    return console.to_envelope(envelope(kind, {key or kind: content}, runs=runs, warnings=console.WARNINGS))


def listing(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of names and descriptions."""
    from hotline_analysis.cli import console

    return console.to_listing(headers, rows, width=console.width(), color=console.colored())


def arguments(pairs: list[str]) -> dict[str, str]:
    """Parse KEY=VALUE pairs."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--param")
        given[name] = value
    return given


def said_of(output: Path) -> str:
    """Return the name and size of a written file, for display."""
    from hotline_analysis.cli import console

    return f"{console.one_line(str(output))}: {size(output.stat().st_size)}"


def say_written(output: Path, more: str = "") -> None:
    """Print the name and size of a written file, unless it was standard output."""
    if output != STDOUT:
        typer.echo(said_of(output) + more)


def write(text: str, output: Path | None) -> None:
    """Print the text, or write it atomically to a file."""
    if output is None:
        sys.stdout.write(text)
        return
    replace_file(output, lambda file: file.write_text(text, encoding="utf-8"))
