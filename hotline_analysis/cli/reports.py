"""Commands that say where the time goes: report, demo, diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import hotline_analysis as ha
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    AsJson,
    GpuFile,
    GpuName,
    ModelFile,
    Output,
    Overwrite,
    SourceLines,
    Traces,
    content_json,
    open_traces,
    settle,
    settle_frame,
    write,
    write_frame,
)
from hotline_analysis.vocabulary import Phase

if TYPE_CHECKING:
    from hotline_analysis.charts import Timeline
    from hotline_analysis.reports import Report

Format = Literal["text", "markdown", "json", "html"]
_FORMS: dict[str, Format] = {
    ".txt": "text",
    ".md": "markdown",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}
# A comparison is no page.
_DIFF_FORMS = {ending: form for ending, form in _FORMS.items() if form != "html"}


@app.command("demo")
def demo(as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False) -> None:
    """Print the report of a trace that comes with the package.

    \b
    Example:
      hotline demo
    """
    with open_traces([str(ha.demo_trace())]) as trace:
        _write_report(ha.report(trace), "json" if as_json else "text", None, [trace])


@app.command("report")
def report(
    traces: Traces,
    format: Annotated[
        Format | None,
        typer.Option(
            help="How to write it; html is a page with charts and a timeline that needs no network."
            " Without it, the output's name decides."
        ),
    ] = None,
    output: Output = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step.")] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only this phase.")] = None,
    module: Annotated[str | None, typer.Option(help="Only this module, by path, with those in it.")] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    source_lines: SourceLines = True,
    overwrite: Overwrite = False,
) -> None:
    """Say where the time goes and what would help.

    With --step, --phase or --module, it has the tables of what happens there; verdicts and advice are about the run.

    \b
    Example:
      hotline report run.hotline -o report.html
      hotline report run.hotline --step 3
    """
    form = settle(output, overwrite, format, _FORMS, "text")
    with open_traces(traces, model, gpu, gpus) as trace:
        result = ha.report(trace, rank, step=step, phase=phase, module=module, source_lines=source_lines)
        if form == "html":
            timeline = ha.charts.timeline(trace, step=step, rank=rank, source_lines=source_lines)
            _write_report(result, form, output, [trace], timeline)
        else:
            _write_report(result, form, output, [trace])


@app.command("diff")
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
    device_a: Annotated[int | None, typer.Option(help="Only this device of A.")] = None,
    device_b: Annotated[int | None, typer.Option(help="Only this device of B.")] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only this phase of both.")] = None,
    module: Annotated[str | None, typer.Option(help="Only this module of both, by path, with those in it.")] = None,
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
    if by is None and as_csv:
        raise typer.BadParameter("--csv writes one table: choose it with --by")
    if markdown and (by is not None or as_json):
        raise typer.BadParameter("--markdown is for the report: it goes with neither --by nor --json")
    asked: Format | None = "markdown" if markdown else "json" if as_json else None
    if by is not None:
        frame_form = settle_frame(output, overwrite, as_json, as_csv)
    else:
        form = settle(output, overwrite, asked, _DIFF_FORMS, "text")
    options: dict[str, Any] = {
        "timeline": timeline,
        "rank_a": rank_a,
        "rank_b": rank_b,
        "step_a": step_a,
        "step_b": step_b,
        "device_a": device_a,
        "device_b": device_b,
        "phase": phase,
        "module": module,
    }
    with open_traces([a]) as first, open_traces([b]) as second:
        if by is not None:
            given = {key: value for key, value in {"by": by, **options}.items() if value is not None}
            frame = ha.diff(first, second, by=by, **options)
            write_frame(frame, frame_form, output, "diff", given, [first, second])
        else:
            _write_report(ha.diff_report(first, second, **options), form, output, [first, second])


def _write_report(
    result: Report, form: Format, output: Path | None, runs: Sequence[ha.Trace], timeline: Timeline | None = None
) -> None:
    from hotline_analysis.cli import console

    if form == "html":
        text = result.to_html(timeline)
    elif form == "markdown":
        text = result.to_markdown()
    elif form == "json":
        text = content_json("report", result.as_dict(), runs)
    elif output is None:
        text = result.to_text(width=console.width(), color=console.colored())
    else:
        text = result.to_text()
    write(text.rstrip("\n") + "\n", output)
