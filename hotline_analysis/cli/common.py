"""What the commands share: options, opening of traces, and writing of answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import hotline_analysis as ha
from hotline_analysis.errors import ExportExistsError
from hotline_analysis.whole import replace_file

if TYPE_CHECKING:
    import polars as pl

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE", help="A run directory, a trace file, a folder or pattern of them, or several files."
    ),
]
ModelFile = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="JSON", help="The model, for traces without module frames; see docs/annotation.md."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of the terminal.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
SourceLines = Annotated[
    bool,
    typer.Option("--source-lines/--no-source-lines", help="Show lines of code that this python could import."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, one object per row: exact numbers, complete names.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="CSV with a header: exact numbers, complete names.")]


def source(traces: list[str]) -> str | list[str]:
    """Return one name as the API takes it, which looks for several files behind it."""
    return traces[0] if len(traces) == 1 else traces


@contextmanager
def open_traces(traces: list[str], model: Path | None = None) -> Iterator[ha.Trace]:
    """Open a run, or import traces to a temporary one, with a progress bar."""
    from hotline_analysis import console

    with console.progress() as on_progress:
        trace = ha.load(source(traces), model=model, on_progress=on_progress)
    with trace:
        yield trace


Form = Literal["table", "json", "csv"]


def form_of(as_json: bool, as_csv: bool, output: Path | None) -> Form:
    """How to write a frame: as asked for, else as the ending of the file says."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    ending = output.suffix.lower() if output and not (as_json or as_csv) else ""
    if as_json or ending == ".json":
        return "json"
    return "csv" if as_csv or ending == ".csv" else "table"


def format_frame(frame: pl.DataFrame, form: Form, output: Path | None) -> str:
    """Return a frame as text: for the terminal, or for a file."""
    from hotline_analysis import console
    from hotline_analysis.analyze.named import FINDING

    if form == "json":
        return console.to_json(frame)
    if form == "csv":
        return console.to_csv(frame)
    if frame.columns == list(FINDING):
        sentences = [(word, frame[word][0]) for word in FINDING]
        return listing(("finding", ""), sentences) if output is None else console.to_listing(("finding", ""), sentences)
    if output is None:
        return console.to_table(frame, width=console.width(), color=console.colored())
    return console.to_table(frame)


def listing(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of names and their meaning."""
    from hotline_analysis import console

    return console.to_listing(headers, rows, width=console.width(), color=console.colored())


def arguments(pairs: list[str]) -> dict[str, str]:
    """Take KEY=VALUE apart."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--param")
        given[name] = value
    return given


def refuse_to_replace(output: Path | None, overwrite: bool) -> None:
    """Complain before a long import if the output cannot be written."""
    if output is not None and output.is_dir():
        raise ExportExistsError(f"{output} is a folder", hint="Give the name of a file.")
    if output is not None and output.exists() and not overwrite:
        raise ExportExistsError(f"{output} exists already", hint="Choose another name, or --overwrite it.")


def write(text: str, output: Path | None) -> None:
    """Print the text, or write it to a file that appears when it is complete."""
    if output is None:
        sys.stdout.write(text)
        return
    replace_file(output, lambda file: file.write_text(text, encoding="utf-8"))
