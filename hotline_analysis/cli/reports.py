"""Commands that show where the time goes: report, demo, diff."""

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
    RankFromOrder,
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
_LONGEST_NAME = 30  # maximum length of the trace names in a suggested command
# A comparison has no HTML page.
_DIFF_FORMS = {ending: form for ending, form in _FORMS.items() if form != "html"}


All = Annotated[bool, typer.Option("--all", help="Every section, instead of one screen.")]


@app.command("demo")
def demo(
    every: All = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Print the report of a trace that comes with the package.

    \b
    Example:
      hotline demo
    """
    with open_traces([str(ha.demo_trace())]) as trace:
        if as_json or every:
            _write_report(ha.report(trace), "json" if as_json else "text", None, [trace])
        else:
            from hotline_analysis.reports.build import screen_text

            more = "hotline demo --all; for a trace of your own: hotline report TRACE"
            write(screen_text(trace, **_layout(more)), None)


@app.command("report")
def report(
    traces: Traces,
    format: Annotated[
        Format | None,
        typer.Option(
            help="Format of the report; html is a page with charts and a timeline that needs no network."
            " By default, the output's name decides."
        ),
    ] = None,
    output: Output = None,
    every: All = False,
    rank: Annotated[int | None, typer.Option(help="Only this rank.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step.")] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only this phase.")] = None,
    module: Annotated[str | None, typer.Option(help="Only this module, by path, with submodules.")] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    rank_from_order: RankFromOrder = False,
    source_lines: SourceLines = True,
    overwrite: Overwrite = False,
) -> None:
    """Show where the time goes and suggest improvements.

    The report fits one screen; --all shows every section. With --step, --phase or --module, the report has the tables
    of this part. Verdicts and advice are only in the report on the whole run.

    \b
    Example:
      hotline report run.hotline -o report.html
      hotline report run.hotline
      hotline report run.hotline --step 3
    """
    form = settle(output, overwrite, format, _FORMS, "text")
    with open_traces(traces, model, gpu, gpus, rank_from_order=rank_from_order) as trace:
        is_screen = form == "text" and not every
        if is_screen and (step, phase, module) == (None, None, None):
            from hotline_analysis.reports.build import screen_text

            name = _named(traces)
            more = f"hotline report {name} --all or -o page.html; hotline whatif {name}"
            write(screen_text(trace, rank, source_lines=source_lines, **_layout(more, output)), output)
            return
        result = ha.report(trace, rank, step=step, phase=phase, module=module, source_lines=source_lines)
        if form == "html":
            timeline = ha.charts.timeline(trace, step=step, rank=rank, source_lines=source_lines)
            _write_report(result, form, output, [trace], timeline)
        elif is_screen:
            write(result.to_screen(**_layout("", output)), output)
        else:
            _write_report(result, form, output, [trace])


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A run directory, a trace file, or a folder or pattern.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run or trace to compare with A; may be the same.")],
    by: Annotated[
        Literal["step", "part", "phase", "module", "region", "op", "kernel"] | None,
        typer.Option(help="Show all rows of one level, instead of the report."),
    ] = None,
    timeline: Annotated[
        Literal["gpu", "cpu"] | None, typer.Option(help="Compare GPU time, or time of the main CPU thread.")
    ] = None,
    rank_a: Annotated[int | None, typer.Option(help="Only this rank of A.")] = None,
    rank_b: Annotated[int | None, typer.Option(help="Only this rank of B.")] = None,
    step_a: Annotated[int | None, typer.Option(help="Only this step of A.")] = None,
    step_b: Annotated[int | None, typer.Option(help="Only this step of B.")] = None,
    device_a: Annotated[int | None, typer.Option(help="Only this device of A.")] = None,
    device_b: Annotated[int | None, typer.Option(help="Only this device of B.")] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only this phase of both.")] = None,
    module: Annotated[str | None, typer.Option(help="Only this module of both, by path, with submodules.")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV with a header; needs --by.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the report as Markdown.")] = False,
    output: Output = None,
    overwrite: Overwrite = False,
) -> None:
    """Show why steps of B are slower or faster than steps of A.

    The parts of every table add up to the difference. To compare ranks or steps of a single trace, give the trace
    twice: --rank-a 0 --rank-b 1.

    \b
    Example:
      hotline diff run.hotline traces/
    """
    if by is None and as_csv:
        raise typer.BadParameter("--csv writes one table: choose the table with --by")
    if markdown and (by is not None or as_json):
        raise typer.BadParameter("--markdown applies to the report and cannot be combined with --by or --json")
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


def _named(traces: Sequence[str]) -> str:
    """The trace names for a suggested command: the user's arguments if short, else `TRACE`."""
    import shlex

    text = shlex.join(traces)
    return text if len(text) <= _LONGEST_NAME and "-" not in traces else "TRACE"


def _layout(more: str, output: Path | None = None) -> dict[str, Any]:
    """The arguments of `Report.to_screen`: as wide as the terminal; of default width in a file."""
    from hotline_analysis.cli import console

    if output is not None:
        return {"more": more}
    return {
        "width": console.width(),
        "color": console.colored(),
        "more": more,
        "ascii_only": not console.has_blocks(),
    }


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
