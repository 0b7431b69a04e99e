"""Drawing commands: timeline, chart."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import check_file, form_of
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import (
    STDOUT,
    Drawing,
    GpuFile,
    GpuName,
    ModelFile,
    Overwrite,
    SourceLines,
    Traces,
    arguments,
    listing,
    open_traces,
    output_file,
    say_written,
)

_ENDING = re.compile(r"(\.pt)?(\.trace)?(\.json)?(\.gz|\.zst|\.zip)?$|\.hotline$")
"""The file extensions of a trace or run."""


@app.command("timeline")
def timeline(
    traces: Traces,
    output: Annotated[Path, Drawing],
    step: Annotated[int | None, typer.Option(help="The step to draw; the step of median duration by default.")] = None,
    rank: Annotated[int | None, typer.Option(help="The rank to draw; the lowest by default.")] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    source_lines: SourceLines = True,
    overwrite: Overwrite = False,
) -> None:
    """Draw a step as levels: phases, modules, ops, kernels.

    The HTML page works without a network. It opens with the path to the bottleneck expanded; a click on a slice shows
    the slice's parts. Other formats show this first view; .json is a Vega-Lite specification.

    \b
    Example:
      hotline timeline run.hotline -o timeline.html
    """
    from hotline_analysis.charts import saving

    with output_file(output, ".html") as file:
        form_of(file, saving.FORMS)
        check_file(file, overwrite=overwrite)
        with open_traces(traces, model, gpu, gpus) as trace:
            ha.charts.timeline(trace, step=step, rank=rank, source_lines=source_lines).save(file)
    say_written(output)


@app.command("chart")
def chart(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chart; `hotline chart --list` lists all charts.")
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TRACE",
            help="A run directory, a trace file, a folder or pattern of trace files, or several; for diff, A and B.",
        ),
    ] = None,
    output: Annotated[Path | None, Drawing] = None,
    rank: Annotated[int | None, typer.Option(help="Only this rank; short for --param rank=RANK.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step; short for --param step=STEP.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="KEY=VALUE", help="A parameter of the chart. Repeatable."),
    ] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
    list_: Annotated[bool, typer.Option("--list", help="List the charts and their parameters.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Draw the chart of an answer.

    Without -o, it is a page next to the trace, such as run.phases.html. The HTML page works without a network; .json
    is a Vega-Lite specification.

    \b
    Example:
      hotline chart phases run.hotline
      hotline chart phases run.hotline -o phases.svg
      hotline chart diff before.hotline after.hotline -p by=module -o diff.html
    """
    from hotline_analysis.charts import CHARTS, draw, registry, save, saving

    if list_:
        listed = [(kind.name, ", ".join(kind.parameters) or "–", kind.summary) for kind in CHARTS.values()]
        typer.echo(listing(("name", "parameters", "summary"), listed), nl=False)
        return
    if name is None or not traces:
        raise typer.BadParameter("give the name of a chart and a trace; or --list")
    kind = registry.get(name)
    output = _next_to(traces[0], name) if output is None else output
    given: dict[str, object] = {**arguments(param or [])}
    given |= {key: value for key, value in (("rank", rank), ("step", step)) if value is not None}
    # Report errors before a long import.
    kind.arguments(given)
    if output != STDOUT:
        form_of(output, saving.FORMS)
        check_file(output, overwrite=overwrite)
    if kind.traces > 1 and len(traces) != kind.traces:
        raise typer.BadParameter(f"{name} compares {kind.traces} traces, each a run directory, file, folder or pattern")
    with output_file(output, ".html") as file, ExitStack() as opened:
        sources = [traces] if kind.traces == 1 else [[source] for source in traces]
        opening = (open_traces(source, model, gpu, gpus) for source in sources)
        save(draw(name, *map(opened.enter_context, opening), **given), file)
    say_written(output)


def _next_to(trace: str, name: str) -> Path:
    """The page of a chart next to its trace; in this folder if the trace is no file or folder of this machine."""
    path = Path(trace)
    if not path.exists():
        return Path(f"{name}.html")
    stem = _ENDING.sub("", path.resolve().name)
    return path.resolve().parent / f"{stem}.{name}.html"
